"""Renders templates with Jinja2, configured as transformers configures it.

Reads {"vars": {...}, "templates": [...]} from stdin, writes a list of
{"out": text} or {"err": text} to stdout.
"""
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

job = json.load(sys.stdin)
out = []
for source in job["templates"]:
    try:
        text = env.from_string(source).render(**job["vars"])
        text.encode()
        out.append({"out": text})
    except Exception as e:
        out.append({"err": f"{type(e).__name__}: {e}"})
json.dump(out, sys.stdout)
