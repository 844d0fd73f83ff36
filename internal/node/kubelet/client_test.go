package kubelet

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const token = "secret"

// kubelet starts a server with a certificate of httptest's authority, for 127.0.0.1 and example.com.
func kubelet(t *testing.T, handler http.HandlerFunc) (Options, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	o := Options{
		Address:   server.Listener.Addr().String(),
		TokenFile: filepath.Join(dir, "token"),
		CertFiles: []string{filepath.Join(dir, "kubelet.crt")},
	}
	write(t, o.TokenFile, token+"\n")
	// As in kubelet-server-current.pem, the file may also contain a key.
	write(t, o.CertFiles[0], block("PRIVATE KEY", []byte("none of our business"))+block("CERTIFICATE", server.Certificate().Raw))
	return o, server
}

func block(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestPods(t *testing.T) {
	o, _ := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/pods" || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
			{"metadata":{"name":"web","namespace":"shop","uid":"u-1","annotations":{"kubernetes.io/config.source":"file"}},
			 "spec":{"containers":[{"name":"nginx","resources":{"limits":{"cpu":"2"}}}]},"status":{"phase":"Running"},"from":"the future"}]}`)
	})
	pods, err := client(t, o).Pods(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	p := pods[0]
	if p.Name != "web" || p.UID != "u-1" || p.Spec.Containers[0].Resources.Limits.Cpu().Value() != 2 || p.Status.Phase != "Running" {
		t.Errorf("pod %+v", p)
	}
}

func TestConfigz(t *testing.T) {
	answer := `{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0-1","cgroupDriver":"systemd","cgroupRoot":"/","cgroupsPerQOS":true,
		"cpuCFSQuota":true,"cpuCFSQuotaPeriod":"100ms","memoryManagerPolicy":"None","topologyManagerPolicy":"none",
		"containerRuntimeEndpoint":"unix:///run/containerd/containerd.sock","maxPods":110}}`
	o, _ := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/configz" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, answer)
	})
	c := client(t, o)
	got, err := c.Configz(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := Config{
		CPUManagerPolicy: "static", MemoryManagerPolicy: "None", TopologyManagerPolicy: "none",
		ReservedSystemCPUs: cpus(t, "0-1"), CgroupDriver: "systemd", CgroupRoot: "/", CgroupsPerQOS: &yes,
		CPUCFSQuota: &yes, CPUCFSQuotaPeriod: "100ms", ContainerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`{}`, `{"kubeletconfig":null}`, `{"kubeletconfig":{"reservedSystemCPUs":"x"}}`, `{"kubeletconfig":{"cgroupsPerQOS":"yes"}}`, `[]`, ``} {
		answer = bad
		if got, err := c.Configz(t.Context()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", bad, got, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	var status int
	var body string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed to elsewhere") }))
	defer elsewhere.Close()
	o, _ := kubelet(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	c := client(t, o)
	for _, answer := range []struct {
		status int
		body   string
		want   error
	}{
		{401, "Unauthorized", ErrUnauthorized},
		{403, "Forbidden (user=x, verb=get, resource=nodes, subresource(s)=[pods proxy])\n" + strings.Repeat("x", 10_000), ErrForbidden},
		{302, "", ErrAnswer},
		{500, "", ErrAnswer},
		{200, "not JSON", ErrMalformed},
		{200, `{"kind":"NodeList"}`, ErrMalformed},
		{200, `{"kind":"PodList","items":[{"metadata":7}]}`, ErrMalformed},
	} {
		status, body = answer.status, answer.body
		_, err := c.Pods(t.Context())
		if !errors.Is(err, answer.want) || len(err.Error()) > 2*errorLimit {
			t.Errorf("%d %.20q: %v; want %v", status, body, err, answer.want)
		}
	}
}

// TestTrust checks that a token is sent to the kubelet and to no other server.
func TestTrust(t *testing.T) {
	asked := 0
	o, server := kubelet(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, `{"kind":"PodList"}`)
	})
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, block("CERTIFICATE", server.Certificate().Raw))
	other := filepath.Join(t.TempDir(), "other.crt")
	write(t, other, block("CERTIFICATE", certificate(t).Raw))
	empty := filepath.Join(t.TempDir(), "empty.crt")
	write(t, empty, "")
	good := 0
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   func(error) bool
	}{
		{"its certificate", func(*Options) {}, nil},
		{"signed for its address", func(o *Options) { o.CAFile, o.CertFiles = ca, nil }, nil},
		{"signed for its name", func(o *Options) { o.CAFile, o.CertFiles, o.ServerNames = ca, nil, []string{"node-7", "example.com"} }, nil},
		{"another certificate", func(o *Options) { o.CertFiles = []string{other} }, is(ErrUntrusted)},
		{"another authority", func(o *Options) { o.CAFile, o.CertFiles = other, nil }, as[x509.UnknownAuthorityError]},
		{"another name", func(o *Options) { o.CAFile, o.CertFiles, o.ServerNames = ca, nil, []string{"node-7", "10.0.0.7"} }, as[x509.HostnameError]},
		{"no certificate in the file", func(o *Options) { o.CertFiles = []string{empty} }, is(ErrMalformed)},
		{"no authority in the file", func(o *Options) { o.CAFile, o.CertFiles = empty, nil }, is(ErrMalformed)},
		{"no file", func(o *Options) { o.CertFiles = []string{"/nowhere", "/absent"} }, is(os.ErrNotExist)},
		{"no token", func(o *Options) { o.TokenFile += ".old" }, is(os.ErrNotExist)},
	} {
		o := o
		c.change(&o)
		_, err := client(t, o).Pods(t.Context())
		if c.want == nil {
			good++
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err == nil || !c.want(err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if asked != good {
			t.Errorf("%s: asked %d times", c.name, asked)
		}
	}
}

// TestRotation checks that token and certificate are read again after a rotation.
func TestRotation(t *testing.T) {
	var seen []string
	o, server := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"kind":"PodList"}`)
	})
	c := client(t, o)
	ask := func() error {
		_, err := c.Pods(t.Context())
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	write(t, o.TokenFile, "newer")
	write(t, o.CertFiles[0], block("CERTIFICATE", certificate(t).Raw))
	if err := ask(); err != nil { // the same connection as before
		t.Fatal(err)
	}
	server.CloseClientConnections()
	if err := ask(); !errors.Is(err, ErrUntrusted) {
		t.Errorf("after the certificate was replaced: %v", err)
	}
	write(t, o.CertFiles[0], block("CERTIFICATE", server.Certificate().Raw))
	if err := ask(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"Bearer secret", "Bearer newer", "Bearer newer"}, seen); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func is(class error) func(error) bool { return func(err error) bool { return errors.Is(err, class) } }

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// certificate returns a certificate other than httptest's.
func certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func cpus(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOptions(t *testing.T) {
	good := Options{Address: "127.0.0.1:10250", TokenFile: "token", CAFile: "ca"}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"no port":        func(o *Options) { o.Address = "127.0.0.1" },
		"no host":        func(o *Options) { o.Address = ":10250" },
		"no token":       func(o *Options) { o.TokenFile = "" },
		"trust of all":   func(o *Options) { o.CAFile = "" },
		"trust two ways": func(o *Options) { o.CertFiles = []string{"crt"} },
	} {
		o := good
		change(&o)
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	write(t, name, strings.Repeat("x", 11))
	if _, err := readFile(name, 10); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if got, err := readFile(name, 11); err != nil || len(got) != 11 {
		t.Error(err)
	}
}
