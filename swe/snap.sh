# Capture and application of patches. POSIX sh, run as root with WD (the work
# directory) and SNAP (our state, outside of it) set. Every list that leaves or
# enters here is NUL-separated. No configuration, attribute, hook or filter of
# the repository is obeyed, and none of its programs runs.
set -eu
umask 022
export LC_ALL=C

g() {
	env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
		HOME="$SNAP/home" XDG_CONFIG_HOME="$SNAP/home" \
		GIT_DIR="$SNAP/repo.git" GIT_WORK_TREE="${TREE:-$WD}" GIT_INDEX_FILE="$SNAP/${INDEX:-index}" \
		GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$SNAP/gitconfig" GIT_ATTR_NOSYSTEM=1 \
		GIT_OPTIONAL_LOCKS=0 GIT_LITERAL_PATHSPECS=1 GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 \
		GIT_ALTERNATE_OBJECT_DIRECTORIES="${OBJECTS-}" "$(cat "$SNAP/git")" "$@"
}

# top prints the directory, at or above the work directory, that holds .git.
top() (
	cd "$WD"
	while [ ! -e .git ] && [ "$PWD" != / ]; do cd ..; done
	[ ! -e .git ] || pwd -P
)

# gitdir prints the repository's own git directory; nothing when there is none.
gitdir() (
	t=$(top)
	[ -n "$t" ] || exit 0
	cd "$t"
	if [ -d .git ]; then
		cd .git && pwd -P
	elif [ -f .git ]; then
		d=$(sed -n 's/^gitdir: //p' .git | head -n 1)
		[ -n "$d" ] && cd "$d" 2>/dev/null && pwd -P
	fi
)

# theirs reads a fact out of the repository's own git directory with a command
# that looks at refs and objects only.
theirs() (
	cd "$WD"
	d=$(gitdir)
	[ -n "$d" ] || exit 0
	for f in "$d/HEAD" "$d/config" "$d/packed-refs" "$d/commondir"; do
		[ ! -e "$f" ] || [ -f "$f" ] || exit 0
	done
	limit= # a ref may be a pipe that nobody writes to
	! command -v timeout >/dev/null || limit='timeout 20'
	env -i PATH=/usr/bin:/bin LC_ALL=C HOME="$SNAP/home" XDG_CONFIG_HOME="$SNAP/home" GIT_CONFIG_NOSYSTEM=1 \
		GIT_CONFIG_GLOBAL="$SNAP/gitconfig" GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 \
		$limit "$(cat "$SNAP/git")" -c core.fsmonitor=false -c core.hooksPath=/dev/null --git-dir="$d" "$@" 2>/dev/null || :
)

# The state directory, made once and whole: a second start begins anew.
init() {
	rm -rf "$SNAP"
	mkdir -p "${SNAP%/*}"
	mkdir -m 700 "$SNAP" "$SNAP/home"
	command -v git >"$SNAP/git" || { echo "the image has no git" >&2; exit 97; }
	cat >"$SNAP/gitconfig" <<-'EOF'
		[safe]
		directory = *
		[core]
		autocrlf = false
		fileMode = true
		symlinks = true
		ignoreCase = false
		protectNTFS = false
		protectHFS = false
		precomposeUnicode = false
		quotePath = true
		fsmonitor = false
		untrackedCache = false
		splitIndex = false
		hooksPath = /dev/null
		excludesFile = /dev/null
		attributesFile = /dev/null
		looseCompression = 1
		fsync = none
		[gc]
		auto = 0
		[index]
		threads = 1
	EOF
	ln -s "$SNAP/gitconfig" "$SNAP/home/.gitconfig"
	: >"$SNAP/proof"
	(cd "$SNAP" && env -i PATH=/usr/bin:/bin HOME="$SNAP/home" GIT_CONFIG_NOSYSTEM=1 "$(cat git)" init -q --bare --template= repo.git)
	mkdir -p "$SNAP/repo.git/info"
	echo '* -text !eol -ident -filter -working-tree-encoding !diff !merge !whitespace' >"$SNAP/repo.git/info/attributes"
	d=$(gitdir)
	c=$d
	[ ! -f "$d/commondir" ] || c=$(cd "$d" && cd "$(cat commondir)" && pwd -P)
	{
		[ ! -f "$c/info/exclude" ] || cat "$c/info/exclude"
		printf '\n/PROBLEM_STATEMENT.md\n/.harness/\n'
	} >"$SNAP/repo.git/info/exclude"
	printf '%s\n' __pycache__/ '*.pyc' '*.pyo' .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/ node_modules/ .tox/ .nox/ \
		.venv/ '*.egg-info/' .coverage .DS_Store .claude/ .codex/ '*.orig' '*.rej' >"$SNAP/junk"
	: >"$SNAP/nojunk"
	theirs rev-parse -q --verify HEAD >"$SNAP/head0"
	theirs symbolic-ref -q HEAD >"$SNAP/branch0"
	printf '%s' "$d" >"$SNAP/gitdir0"
	t=$(top)
	p=$(cd "$WD" && pwd -P)
	p=${p#"$t"}
	theirs rev-parse -q --verify "HEAD:${p#/}" >"$SNAP/headtree"
}

# lists JUNK CAP: what the work tree holds beside the index. Special files can't
# be part of a patch. An agent's are removed: a pipe called .gitignore would
# block its reader.
lists() {
	cd "$WD"
	find . -name .git -prune -o \( -type p -o -type s -o -type b -o -type c \) -print0 >"$SNAP/special"
	[ "$1" != junk ] || find . -name .git -prune -o \( -type p -o -type s -o -type b -o -type c \) -exec rm -f {} +
	find . -name .git -prune -o -type f -size +"$2"c -print0 >"$SNAP/big"
	# A repository in the place of a file of the index would not be listed.
	find . -mindepth 2 -name .git -prune -exec sh -c 'for p; do printf "%s\0" "${p%/.git}"; done' sh {} + >"$SNAP/inner"
	g update-index --force-remove -z --stdin <"$SNAP/inner"
	g ls-files -z -o --exclude-standard --exclude-from="$SNAP/$1" >"$SNAP/other"
	g ls-files -z -o -i --directory --exclude-standard --exclude-from="$SNAP/$1" >"$SNAP/ignored"
	g ls-files -z >"$SNAP/base"
	: >"$SNAP/tracked"
	d=$(gitdir)
	if [ -n "$d" ] && [ -f "$d/index" ]; then
		rm -f "$SNAP/theirs" "$SNAP"/repo.git/sharedindex.*
		cp "$d/index" "$SNAP/theirs"
		for f in "$d"/sharedindex.*; do [ ! -f "$f" ] || cp "$f" "$SNAP/repo.git/"; done
		INDEX=theirs g ls-files -s -z >"$SNAP/tracked" 2>/dev/null || : >"$SNAP/tracked"
	fi
	t=$(top)
	p=$(cd "$WD" && pwd -P)
	p=${p#"$t"}
	printf '%s' "${p#/}" >"$SNAP/prefix"
	theirs rev-parse -q --verify HEAD >"$SNAP/head"
	theirs symbolic-ref -q HEAD >"$SNAP/branch"
	bundle other base tracked big special ignored ignored0 prefix s0 headtree head0 head branch0 branch gitdir0 proof >"$SNAP/found"
}

# bundle FILE...: lists and facts as one list, since each file read costs a
# round trip. No list has an empty entry: one announces the next file's name.
bundle() {
	for f in "$@"; do
		printf '\0%s\0' "$f"
		[ ! -f "$SNAP/$f" ] || case $f in
		other | base | tracked | big | special | ignored | ignored0 | refused | raw) cat "$SNAP/$f" ;;
		*) [ ! -s "$SNAP/$f" ] || printf '%s\0' "$(cat "$SNAP/$f")" ;;
		esac
	done
}

# nested JUNK DIR: the files of a repository inside the work tree.
nested() {
	TREE=$WD/$2
	cd "$TREE"
	rm -f "$SNAP/empty"
	INDEX=empty g ls-files -z -o --exclude-standard --exclude-from="$SNAP/$1"
}

# from FILE COMMAND...: with the list from outside as its input; no list, nothing
# to do. A list serves once.
from() {
	f=$SNAP/$1
	shift
	[ -f "$f" ] || return 0
	"$@" <"$f" || return
	rm -f "$f"
}

# tree: the index brought to what the work tree holds; the lists remove and add
# come from outside. A path that git refuses is listed in refused.
tree() {
	cd "$WD"
	: >"$SNAP/refused"
	from remove g update-index --force-remove -z --stdin
	g add -u .
	[ -f "$SNAP/add" ] || : >"$SNAP/add"
	if ! g update-index --add --remove --replace -z --stdin <"$SNAP/add" 2>"$SNAP/why"; then
		xargs -0 -n 1 sh -c '. "$0"; add_one "$1"' "$SNAP/lib.sh" <"$SNAP/add"
	fi
	rm -f "$SNAP/add"
	g write-tree >"$SNAP/tree.tmp"
	mv "$SNAP/tree.tmp" "$SNAP/tree"
	bundle tree refused >"$SNAP/found"
}

add_one() {
	cd "$WD"
	g update-index --add --remove --replace -- "$1" 2>/dev/null || printf '%s\0' "$1" >>"$SNAP/refused"
}

# listing TREE: its files.
listing() {
	g ls-tree -r -z --full-tree "$1" >"$SNAP/listing"
}

# difference A B: the patch between two trees and its list of paths.
difference() {
	cd "$WD"
	listing "$1"
	g diff-tree -r -p --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color --src-prefix=a/ --dst-prefix=b/ \
		--unified=3 --inter-hunk-context=0 --submodule=short --diff-algorithm=myers --no-indent-heuristic --output="$SNAP/patch" "$1" "$2"
	g diff-tree -r -z --raw --no-renames --no-abbrev "$1" "$2" >"$SNAP/raw"
	bundle tree refused raw >"$SNAP/found"
}

# keep_base makes the tree just written S0. The index stays as it is: its stat
# data is what makes S1 cheap.
keep_base() {
	cp "$SNAP/index" "$SNAP/index0"
	cp "$SNAP/ignored" "$SNAP/ignored0"
	cp "$SNAP/tree" "$SNAP/s0"
}

# apply_tier TIER: the patch applied to a fresh copy of the index, never to
# files; exit 1 when it does not apply.
apply_tier() {
	cd "$WD"
	cp "$SNAP/index0" "$SNAP/work"
	case $1 in
	nothing)
		written
		return
		;;
	exact) set -- ;;
	3way)
		OBJECTS=$(gitdir)/objects # a merge needs what the patch was made from: HEAD may have it
		set -- --3way
		;;
	loose) set -- --recount --ignore-whitespace ;;
	fuzz)
		fuzzy
		return
		;;
	esac
	INDEX=work g apply --cached --binary --whitespace=nowarn "$@" "$SNAP/incoming" || return 1
	! INDEX=work g ls-files -u | grep -q . || return 1
	written
}

# written: the tree of the working index, and how it differs from S0.
written() {
	INDEX=work g write-tree >"$SNAP/tree.tmp"
	mv "$SNAP/tree.tmp" "$SNAP/tree"
	g diff-tree -r -z --raw --no-renames --no-abbrev "$(cat "$SNAP/s0")" "$(cat "$SNAP/tree")" >"$SNAP/raw"
	bundle tree raw >"$SNAP/found"
}

# fuzzy applies with patch(1) to a scratch copy of S0, all or nothing.
fuzzy() {
	command -v patch >/dev/null || return 1
	rm -rf "$SNAP/scratch"
	mkdir "$SNAP/scratch"
	TREE=$SNAP/scratch INDEX=work g checkout-index -a -f
	cd "$SNAP/scratch"
	patch -p1 --forward --batch --fuzz=2 --no-backup-if-mismatch <"$SNAP/incoming" || return 1
	! find . -name '*.rej' | grep -q . || return 1
	cp "$SNAP/index0" "$SNAP/work"
	TREE=$SNAP/scratch INDEX=work g add -A -f .
	cd /
	rm -rf "$SNAP/scratch"
	written
}

# restore puts the entries of $SNAP/entries back into the working index.
restore() {
	cd "$WD"
	INDEX=work from entries g update-index --replace -z --index-info
	written
}

# official applies the graders' own patch on top of what stands in the working
# index.
official() {
	cd "$WD"
	INDEX=work g apply --cached --binary --whitespace=nowarn "$SNAP/tests" || INDEX=work g apply --cached --binary --whitespace=nowarn --recount "$SNAP/tests"
	written
}

# materialise brings the work tree from S0 to the working index: gone, dirs, put
# and own are lists from outside. What is written belongs to the user $1.
materialise() {
	cd "$WD"
	from gone xargs -0 -r rm -f --
	from dirs xargs -0 -r -n 1 rmdir -- 2>/dev/null || rm -f "$SNAP/dirs"
	INDEX=work from put g checkout-index -f -z --stdin
	[ -n "${AGENTRL_ONE_USER-}" ] || from own xargs -0 -r chown -h "$(id -u "$1"):$(id -g "$1")" --
	rm -f "$SNAP/own"
}

# back brings the work tree to S0 again.
back() {
	cd "$WD"
	cp "$SNAP/index0" "$SNAP/work"
	g ls-files -z -o --exclude-standard >"$SNAP/other"
	xargs -0 -r rm -rf -- <"$SNAP/other"
	INDEX=work g checkout-index -a -f
}

# scrub removes what the agent could read a solution from: every commit that is
# not in HEAD's own history, and all that names one. Tags of ancestors stay,
# builds ask for them. The proof is counted, not assumed.
scrub() {
	: >"$SNAP/proof"
	d=$(gitdir)
	[ -n "$d" ] || return 0
	[ ! -f "$d/commondir" ] || d=$(cd "$d" && cd "$(cat commondir)" && pwd -P)
	scrub_one "$d" || return 98
	[ ! -d "$d/modules" ] || find "$d/modules" -type f -name HEAD >"$SNAP/modules"
	[ ! -f "$SNAP/modules" ] || while read -r m; do
		m=${m%/HEAD}
		[ ! -d "$m/objects" ] || scrub_one "$m" || return 98
	done <"$SNAP/modules"
}

scrub_one() {
	h() (
		dir=$1
		shift
		env -i PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=C HOME="$SNAP/home" XDG_CONFIG_HOME="$SNAP/home" GIT_CONFIG_NOSYSTEM=1 \
			GIT_CONFIG_GLOBAL="$SNAP/gitconfig" GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 \
			"$(cat "$SNAP/git")" -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 --git-dir="$dir" "$@"
	)
	r=$1
	owner=$(ls -ldn "$r" | awk '{print $3 ":" $4}')
	h "$r" rev-parse -q --verify HEAD >"$SNAP/at" || return 0
	branch=$(h "$r" symbolic-ref -q HEAD || :)
	h "$r" for-each-ref --merged "$(cat "$SNAP/at")" --format='%(refname)' refs/tags >"$SNAP/keep"
	printf '%s\n' "$branch" >>"$SNAP/keep"
	h "$r" for-each-ref --format='%(refname)' >"$SNAP/refs"
	grep -vxF -f "$SNAP/keep" "$SNAP/refs" >"$SNAP/drop" || :
	sed 's/^/delete /' "$SNAP/drop" | h "$r" -c core.logAllRefUpdates=false update-ref --no-deref --stdin
	h "$r" remote >"$SNAP/remotes" || :
	while read -r name; do h "$r" config --remove-section "remote.$name" || :; done <"$SNAP/remotes"
	(
		cd "$r"
		rm -rf refs/remotes refs/stash refs/replace refs/original logs worktrees rebase-merge rebase-apply sequencer info/grafts \
			FETCH_HEAD ORIG_HEAD MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_RR AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD BISECT_* \
			COMMIT_EDITMSG SQUASH_MSG objects/info/commit-graph objects/info/commit-graphs objects/pack/*.keep objects/pack/*.promisor
	)
	h "$r" repack -a -d -q
	rm -f "$r/objects/info/alternates"
	h "$r" prune --expire=now
	h "$r" prune-packed -q
	[ -n "${AGENTRL_ONE_USER-}" ] || chown -R -h "$owner" "$r"
	outside=$(h "$r" rev-list --count --all --not HEAD)
	loose=$(h "$r" fsck --unreachable --no-reflogs --connectivity-only --no-progress 2>/dev/null | grep -c '^unreachable' || :)
	echo "refs deleted $(wc -l <"$SNAP/drop"), kept $(grep -c . "$SNAP/keep"); commits outside HEAD $outside; unreachable objects $loose" >>"$SNAP/proof"
	[ "$outside" = 0 ] && [ "$loose" = 0 ]
}
