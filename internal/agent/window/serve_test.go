package window

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose clients are in the same process, so that the fake clock of a test applies.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects to a server of ServeAt, until the test ends.
func dial(t *testing.T, handler http.Handler) net.Conn {
	t.Helper()
	l := pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeAt(ctx, l, handler) }()
	client, server := net.Pipe()
	l.conns <- server
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

// endsAfter waits up to an hour until the other side closes a connection, and returns the time.
func endsAfter(t *testing.T, conn net.Conn, in *bufio.Reader) time.Duration {
	t.Helper()
	began := time.Now()
	// A pipe takes no deadline once the other side has closed it.
	if err := conn.SetReadDeadline(began.Add(time.Hour)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	return time.Since(began)
}

// answerOf sends a request and returns the status of its answer.
func answerOf(t *testing.T, conn net.Conn, in *bufio.Reader, header string) int {
	t.Helper()
	go func() {
		_, _ = io.WriteString(conn, "GET "+healthPath+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\n")
	}()
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// TestIdleConnectionsEnd checks that a connection which a client leaves idle is closed, but not between scrapes once a
// minute. A connection with a long answer in progress is not idle.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, healthz(func() error {
			time.Sleep(time.Hour)
			return nil
		}))
		in := bufio.NewReader(conn)
		for range 3 {
			if code := answerOf(t, conn, in, ""); code != http.StatusOK {
				t.Fatalf("code %d", code)
			}
			time.Sleep(time.Minute)
		}
		if code := answerOf(t, conn, in, ""); code != http.StatusOK {
			t.Fatalf("code %d", code)
		}
		if after := endsAfter(t, conn, in); after != idleFor {
			t.Errorf("it ended after %s", after)
		}
	})
}

// TestUnsentBodiesEnd checks that a request ends whose answer waits for a body that the client never sends.
func TestUnsentBodiesEnd(t *testing.T) {
	for _, header := range []string{"Content-Length: 5", "Transfer-Encoding: chunked"} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := dial(t, healthz(func() error { return nil }))
				in := bufio.NewReader(conn)
				if code := answerOf(t, conn, in, header+"\r\n"); code != http.StatusOK {
					t.Errorf("code %d", code)
				}
				if after := endsAfter(t, conn, in); after > requestFor {
					t.Errorf("it ended after %s", after)
				}
			})
		})
	}
}

// TestHeadersAreBounded checks that the longest token fits into a request, and that much larger headers are refused.
func TestHeadersAreBounded(t *testing.T) {
	for size, want := range map[int]int{maxToken: http.StatusOK, 4 * maxToken: http.StatusRequestHeaderFieldsTooLarge} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			conn := dial(t, healthz(func() error { return nil }))
			header := "Authorization: Bearer " + strings.Repeat("v", size) + "\r\n"
			if code := answerOf(t, conn, bufio.NewReader(conn), header); code != want {
				t.Errorf("code %d, want %d", code, want)
			}
		})
	}
}
