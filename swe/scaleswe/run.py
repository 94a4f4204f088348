"""Runs pytest, or a script that runs it, before anything of the work directory
can take the place of a library. Exit status 90: there is no pytest."""
import json
import os
import runpy
import sys

with open(sys.argv[1]) as f:
    job = json.load(f)
sys.path.pop(0)
if job["pytest"]:
    try:
        import pytest
    except ImportError as error:
        print(error)
        sys.exit(90)
sys.path.insert(0, os.getcwd())
options = job["options"] + ["--junitxml=" + os.environ.get("AGENTRL_ROOT", "") + job["report"]]
if job["args"]:
    sys.exit(int(pytest.main(options + job["args"])))
os.environ["PYTEST_ADDOPTS"] = " ".join(options)
sys.argv = [job["script"]]
runpy.run_path(job["script"], run_name="__main__")
