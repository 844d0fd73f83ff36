package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/test/cluster/vmnode/wire"
)

func TestRunSaysHowItEnded(t *testing.T) {
	for _, test := range []struct {
		script string
		want   wire.Answer
	}{
		{"cat; echo no >&2; exit 3", wire.Answer{Stdout: []byte("in"), Stderr: []byte("no\n"), Code: 3}},
		{"kill -9 $$", wire.Answer{Code: 137}},
		{"sleep 5 & echo left", wire.Answer{Stdout: []byte("left\n")}},
	} {
		got := run(t.Context(), wire.Request{Argv: []string{"/bin/sh", "-c", test.script}, Stdin: []byte("in")})
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", test.script, diff)
		}
	}
	if got := run(t.Context(), wire.Request{Argv: []string{"/nowhere"}}); !strings.Contains(got.Failure, "/nowhere") {
		t.Errorf("a missing program: %+v", got)
	}
}

// TestAnswer checks that a wrong token is refused, and that a command ends when the host goes away.
func TestAnswer(t *testing.T) {
	ask := func(request wire.Request) wire.Answer {
		host, guest := net.Pipe()
		defer host.Close()
		go func() {
			defer guest.Close()
			answer(t.Context(), guest, "secret\n")
		}()
		var got wire.Answer
		if err := json.NewEncoder(host).Encode(request); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(host).Decode(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(wire.Request{Token: "guess", Argv: []string{"echo", "x"}}); got.Failure != "wrong token" || len(got.Stdout) > 0 {
		t.Errorf("a wrong token: %+v", got)
	}
	if got := ask(wire.Request{Token: "secret", Argv: []string{"echo", "x"}}); string(got.Stdout) != "x\n" {
		t.Errorf("the right token: %+v", got)
	}
	if got := ask(wire.Request{Token: "secret"}); got.Failure != "no command" {
		t.Errorf("no command: %+v", got)
	}

	host, guest := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer(t.Context(), guest, "secret")
	}()
	if err := json.NewEncoder(host).Encode(wire.Request{Token: "secret", Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	host.Close()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the command goes on after the host has gone")
	}
}
