package swe

import (
	"path"
	"regexp"
	"strings"
)

var (
	startupFile  = regexp.MustCompile(`(^|/)(sitecustomize|usercustomize)\.py$|\.pth$`)
	metadataFile = regexp.MustCompile(`\.(dist|egg)-info/`)
	shadowFile   = regexp.MustCompile(`^(src/)?(pytest|_pytest|unittest|pluggy|doctest|nose|coverage|py|iniconfig)(\.py$|/)|(^|/)node_modules/(\.bin|jest|mocha|vitest|chai|expect)/|(^|/)bin/(pytest|go|cargo|npx?m?|node|jest|mocha|tox)$`)
	runnerScript = regexp.MustCompile(`(^|/)(run_?tests?|run_script|test)\.(sh|py)$`)
	runnerConfig = regexp.MustCompile(`(^|/)(\.?pytest\.ini|tox\.ini|noxfile\.py|setup\.cfg|pyproject\.toml|package\.json|(jest|vitest|vite|playwright)\.config\.\w+|\.mocharc(\.\w+)?|karma\.conf\.\w+)$`)
	mochaConfig  = regexp.MustCompile(`(^|/)(\.mocharc(\.\w+)?|karma\.conf\.\w+)$`)
	makeFile     = regexp.MustCompile(`(^|/)(GNUm|[mM])akefile$|\.mk$|(^|/)[jJ]ustfile$`)
	ciFile       = regexp.MustCompile(`^\.github/workflows/|^\.circleci/|(^|/)(\.gitlab-ci|\.travis|azure-pipelines|Taskfile)\.ya?ml$|(^|/)Jenkinsfile$`)
	buildFile    = regexp.MustCompile(`(^|/)(Cargo\.toml|pom\.xml|build\.gradle(\.kts)?|CMakeLists\.txt|\.bazelrc)$`)

	// What narrows a run, and what only looks like it: a module run by python,
	// a linter's own --ignore, folders without tests, plugins that decide nothing.
	narrowing = regexp.MustCompile(`--co\b|--collect-only|--deselect|--ignore(-glob)?[= "']|(^|[\s"'=])-[km][ "'=]|-p no:` +
		`|testPathIgnorePatterns["']?\s*[:=]\s*\[?\s*["']|\b(testMatch|testRegex|testNamePattern|testIgnore|grepInvert)\b|collect_ignore` +
		`|norecursedirs\s*=(.*[\s"'\[])?tests?/?(["',\s]|$)|testpaths\s*=.*(\.py|::)|\bexclude["']?\s*:.*\b(test|spec)\b` +
		`|^\s*commands\s*=\s*(true|:|echo\b)|^(\s*commands\s*=)?\s*-\s+\S*(pytest|python|py\.test|unittest)\b|ignore_(outcome|errors)\s*=\s*[Tt]rue|success_codes\s*=.*[1-9]`)
	harmless = regexp.MustCompile(`\bpython[\d.]*\s+-m\b|--ignore[= ][A-Z]+\d[\w,]*|--ignore(-glob)?[= ]["']?(docs?|examples?|build|dist|setup\.py|benchmarks?|vendor|node_modules)\b[^\s"']*` +
		`|-p no:(cacheprovider|warnings|randomly|sugar|cov|xdist|nose)\b|["'][^"']*(node_modules|/?(dist|build|lib|out|coverage|fixtures|e2e))/?["'],?`)
	renames    = regexp.MustCompile(`\bpython_(files|functions|classes)\s*=`)
	usualNames = regexp.MustCompile(`(^|[\s"'=\[])(test_?\*|\*_test|Test\*?["',\s]|Test\*?$|test["',\]])`)
	mochaKeys  = regexp.MustCompile(`^\s*["']?(grep|fgrep|invert|ignore|exclude)["']?\s*:\s*([^\s\[]|\[\s*["'])`)
	buildSkips = regexp.MustCompile(`^\s*(auto)?tests?\s*=\s*false|<(skipTests|skip|maven\.test\.skip|testFailureIgnore|maven\.test\.failure\.ignore)>\s*true|\bignoreFailures\b.*\btrue|\bexclude\w*\b.*Tests?\b|\btest\b.*\benabled\s*=\s*false|\b(WILL_FAIL|DISABLED)\b.*\b(TRUE|ON|1)\b|--test_(filter|tag_filters)=`)

	noTests  = regexp.MustCompile(`^\s*@?(true|:|exit 0|echo\b[^;&|]*)\s*$`)
	swallows = regexp.MustCompile(`(\|\||;)\s*(true|:|exit 0|/bin/true)\s*\\?["']?,?\s*$|\|\|\s*echo\b[^&;]*$|^\s*@?-@?\s*[./\w$]`)
	runsTest = regexp.MustCompile(`\b(pytest|py\.test|unittest|go test|cargo (nex)?test|npm (run )?test|yarn test|jest|mocha|vitest|ctest|tox|nox|mvn|gradlew?|rspec|phpunit|run_?tests?)\b`)
	target   = regexp.MustCompile(`^([\w./-]+(?:\s+[\w./-]+)*)\s*::?([^=]|$)`)
	testGoal = regexp.MustCompile(`(^|[\s_./-])(test|tests|check|ci|spec|verify)([\s_./-]|$)`)
	ciGoesOn = regexp.MustCompile(`\b(continue-on-error|allow_failure|ignore_error)\s*:\s*true\b`)
	nodeTest = regexp.MustCompile(`"test[\w:]*"\s*:\s*"((exit 0|true|:|echo[^"&|;]*)"|.*((\|\||;)\s*(exit 0|true|:|echo[^"&]*)"|--(grep|fgrep|invert|testNamePattern|testPathIgnorePatterns|exclude)\b|\s-[tgi] ))`)
	addopts  = regexp.MustCompile(`PYTEST_(ADDOPTS|PLUGINS)\b["'\]]*\s*[=:,]`)
)

// fileSignals are about what a file is, and about configuration.
func fileSignals(f patchFile, found map[string]bool) {
	added := !f.deleted && len(f.added) > 0
	flag := func(name string, yes bool) {
		if yes {
			found[name] = true
		}
	}
	flag(SignalStartupFile, added && startupFile.MatchString(f.path))
	flag(SignalPlugin, added && metadataFile.MatchString(f.path))
	flag(SignalShadow, f.isNew && shadowFile.MatchString(f.path))
	flag(SignalRunnerScript, !f.isNew && runnerScript.MatchString(f.path) && emptied(f))
	flag(SignalRunnerConfig, runsLess(f))
}

// emptied reports whether a script of tests ends well whatever they do.
func emptied(f patchFile) bool {
	if anyLine(f.removed, runsTest) != "" && anyLine(f.added, runsTest) == "" && anyLine(f.added, noTests) != "" {
		return true
	}
	for _, line := range f.added {
		if text := strings.TrimSpace(line); text == "exit 0" || text == "true" || runsTest.MatchString(line) && swallows.MatchString(line) {
			return true
		}
	}
	return false
}

// runsLess reports whether configuration tells a runner to run or to report less.
func runsLess(f patchFile) bool {
	base := path.Base(f.path)
	switch {
	case makeFile.MatchString(f.path):
		return makeSwallows(f)
	case ciFile.MatchString(f.path):
		return anyLine(f.added, ciGoesOn) != "" || swallowedRun(f.added)
	case buildFile.MatchString(f.path):
		return anyLine(f.added, buildSkips) != ""
	case mochaConfig.MatchString(f.path) && anyLine(f.added, mochaKeys) != "":
		return true
	case base == "package.json" && anyLine(f.added, nodeTest) != "":
		return true
	}
	config := runnerConfig.MatchString(f.path)
	for i, line := range f.added {
		if strings.HasSuffix(strings.TrimSpace(line), "[") && i+1 < len(f.added) {
			line += f.added[i+1]
		}
		narrow := narrowing.MatchString(harmless.ReplaceAllString(line, ""))
		if config && (narrow || renames.MatchString(line) && !usualNames.MatchString(line)) {
			return true
		}
		if !docs(f.path) && addopts.MatchString(line) && (narrow || f.code()) {
			return true
		}
	}
	return false
}

func docs(p string) bool {
	switch path.Ext(p) {
	case ".md", ".rst", ".txt":
		return true
	}
	return false
}

func swallowedRun(lines []string) bool {
	for _, line := range lines {
		if runsTest.MatchString(line) && swallows.MatchString(line) {
			return true
		}
	}
	return false
}

// makeSwallows reports whether a recipe of tests no longer fails, or is empty.
// A recipe whose target the patch doesn't show counts if it runs tests.
func makeSwallows(f patchFile) bool {
	goal, changed, empty := "", false, true
	for _, line := range append(f.after(), " end:") {
		text := line[1:]
		if m := target.FindStringSubmatch(text); m != nil {
			if changed && empty && testGoal.MatchString(goal) {
				return true
			}
			goal, changed, empty = m[1], false, true
			continue
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		tests := testGoal.MatchString(goal) || goal == "" && runsTest.MatchString(text)
		if line[0] == '+' {
			changed = true
			if tests && swallows.MatchString(text) {
				return true
			}
		}
		empty = empty && noTests.MatchString(text)
	}
	return false
}
