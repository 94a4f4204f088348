package memhttp_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl/internal/memhttp"
)

func TestHostsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memhttp.New()
		defer n.Close()
		url := n.Handle("slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			io.WriteString(w, r.Host)
		}))
		began := time.Now()
		res, err := n.Client().Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != "slow" || time.Since(began) != time.Hour {
			t.Errorf("got %q after %v, %v; want the host's name after 1h", body, time.Since(began), err)
		}
		if _, err := n.Client().Get("http://nobody"); err == nil {
			t.Error("a host that is not there answered")
		}
		n.Remove("slow")
		if _, err := n.Client().Get(url); err == nil {
			t.Error("a removed host answered")
		}
	})
}

func TestClientThatLeavesIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memhttp.New()
		defer n.Close()
		left := make(chan time.Time, 1)
		url := n.Handle("h", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.ReadAll(r.Body)
			<-r.Context().Done()
			left <- time.Now()
		}))
		client := n.Client()
		client.Timeout = time.Minute
		if _, err := client.Get(url); err == nil {
			t.Fatal("no timeout")
		}
		<-left
	})
}
