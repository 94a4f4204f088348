package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// RunWatched runs a job that needs the adapter: sandbox.RunDetached, beside
// which the adapter is dialled every three seconds from inside the sandbox. It
// is an *UnreachableError, beside an Exit that did not succeed, when the
// adapter is not reached
//   - before the job, which then is not started;
//   - in its midst, by three dials in a row over more than five seconds, which
//     ends the job: an agent would notice minutes later, or, in the midst of a
//     long command, never. A shorter outage ends nothing, nor does an adapter
//     that takes connections and is too busy to answer;
//   - at the end of a job that has failed by itself.
//
// An image that has nothing to dial with is not watched. The dials are root's
// and their verdict is brought out by a request of its own: nothing that the
// job does forges or hides it.
func RunWatched(ctx context.Context, sb sandbox.Sandbox, d sandbox.Detached, baseURL string) (sandbox.Exit, error) {
	w, err := newWatch(ctx, sb, d.Log, baseURL)
	if err != nil {
		return sandbox.Exit{}, err
	}
	if err := Dial(ctx, sb, baseURL); err != nil {
		return sandbox.Exit{Code: 1}, errors.Join(err, w.remove(ctx))
	}
	watching, end := context.WithCancel(ctx)
	defer end()
	var found *UnreachableError
	budget, stop := d.Stop, make(chan struct{})
	lost := make(chan *UnreachableError, 1)
	var both sync.WaitGroup
	both.Go(func() {
		if err := w.wait(watching); err != nil {
			lost <- err
		}
	})
	both.Go(func() {
		select {
		case found = <-lost:
			close(stop)
		case <-budget:
			close(stop)
		case <-watching.Done():
		}
	})
	d.Stop = stop
	exit, err := sandbox.RunDetached(ctx, sb, d)
	end()
	both.Wait()
	if err != nil {
		return sandbox.Exit{}, err
	}
	if err := w.remove(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	switch {
	case found != nil && exit.State == sandbox.TimedOut:
		return sandbox.Exit{Code: 1}, found
	case exit.State == sandbox.TimedOut || exit == sandbox.Exit{}:
		return exit, nil
	}
	return exit, Dial(ctx, sb, baseURL)
}

// A watch is the dialling beside one job.
type watch struct {
	sb   sandbox.Sandbox
	url  string
	env  map[string]string
	flag string // a file that is there as long as the watch goes on: some backends do not end a command whose caller has left
}

// newWatch also removes a log of a former run, which must not be taken for that
// of a job that does not start.
func newWatch(ctx context.Context, sb sandbox.Sandbox, log, baseURL string) (*watch, error) {
	env, err := dialEnv(baseURL)
	if err != nil {
		return nil, err
	}
	w := &watch{sb: sb, url: baseURL, env: env, flag: Home + "/run/watch-" + rand.Text()}
	script := fmt.Sprintf("f=%s; mkdir -p \"${f%%/*}\" && chmod 755 \"${f%%/*}\" && : >\"$f\"", sandbox.Path(w.flag))
	if log != "" {
		script += " && rm -f " + sandbox.Path(log)
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Script: script, Replayable: true})
	if err != nil {
		return nil, fmt.Errorf("watch the adapter: %w", err)
	}
	return w, nil
}

func (w *watch) remove(ctx context.Context) error {
	_, err := sandbox.Output(ctx, w.sb, sandbox.Cmd{Replayable: true, Script: "rm -f " + sandbox.Path(w.flag)})
	return err
}

// The patience with a watch that does not work: it is a help, and no rollout
// fails for the want of it.
const (
	maxOdd   = 10
	oddPause = 3 * time.Second
)

// wait returns when the adapter is lost, or nil when ctx has ended or there is
// nothing to watch with. One request holds for half a minute of dials.
func (w *watch) wait(ctx context.Context) *UnreachableError {
	cmd := sandbox.Cmd{Script: "flag=" + sandbox.Path(w.flag) + "\n" + reachFunctions + watchScript, Dir: "/", Env: w.env, Replayable: true}
	for odd := 0; odd < maxOdd && ctx.Err() == nil; {
		res, err := w.sb.Exec(ctx, cmd)
		switch {
		case err == nil && res.Ok():
			odd = 0
			continue
		case err == nil && res.Code == unreachableCode:
			return &UnreachableError{w.url, said(res, w.env)}
		case err == nil && (res.Code == blindCode || res.Code == overCode), errors.Is(err, sandbox.ErrGone), errors.Is(err, sandbox.ErrInvalid):
			return nil
		}
		odd++
		select {
		case <-ctx.Done():
		case <-time.After(oddPause):
		}
	}
	return nil
}

// watchScript counts time by the machine's own clock: a dial into a black hole
// takes three seconds. It does not stop to report in the midst of failures.
const watchScript = `fails=0 dials=0
[ -e "$flag" ] || exit 73
while [ -e "$flag" ]; do
	[ $fails -gt 0 ] || [ $dials -lt 10 ] || exit 0
	[ $fails -gt 0 ] && sleep 2 || sleep 3
	read -r now rest </proc/uptime && now=${now%.*} || exit 72
	reach 3
	case $? in
	0) fails=0 ;;
	1)
		[ $fails -gt 0 ] || first=$now
		fails=$((fails + 1))
		if [ $fails -ge 3 ] && [ $((now - first)) -ge 6 ]; then
			echo "lost in the midst of the run: $fails dials in a row failed over $((now - first)) s, the last with: $why"
			exit 71
		fi ;;
	*) exit 72 ;;
	esac
	dials=$((dials + 1))
done
exit 0`
