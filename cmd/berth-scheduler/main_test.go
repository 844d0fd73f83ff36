package main

import (
	"bytes"
	"strings"
	"testing"

	kubeversion "k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// TestHelp checks that the help is kube-scheduler's help plus one paragraph: every flag of kube-scheduler is still
// there.
func TestHelp(t *testing.T) {
	theirs, ours := app.NewSchedulerCommand(), command()
	var want, got bytes.Buffer
	for _, c := range []struct {
		help  func() error
		write func(*bytes.Buffer)
	}{
		{theirs.Help, func(b *bytes.Buffer) { theirs.SetOut(b) }},
		{ours.Help, func(b *bytes.Buffer) { ours.SetOut(b) }},
	} {
		out := &want
		if want.Len() > 0 {
			out = &got
		}
		c.write(out)
		if err := c.help(); err != nil {
			t.Fatal(err)
		}
	}
	rest, found := strings.CutPrefix(got.String(), theirs.Long+about)
	if !found {
		t.Fatalf("the help begins with %q", got.String()[:200])
	}
	usage := strings.Replace(rest, "berth-scheduler [flags]", "kube-scheduler [flags]", 1)
	if own := strings.TrimPrefix(want.String(), theirs.Long); usage != own {
		t.Fatalf("the flags are\n%s\nwant\n%s", usage, own)
	}
}

// TestReportedVersion checks that component-base accepts the reported version, which carries Berth's version as build
// metadata.
func TestReportedVersion(t *testing.T) {
	for _, c := range []struct{ kubernetes, berth, want string }{
		{"v1.36.1", "dev", "v1.36.1+berth.dev"},
		{"v1.36.1", "v0.2.0-5-gabcdef0-dirty", "v1.36.1+berth.v0.2.0-5-gabcdef0-dirty"},
		{"v0.0.0-master+$Format:%H$", "a b/c_", "v0.0.0-master+berth.a-b-c"},
	} {
		if got := reported(c.kubernetes, c.berth); got != c.want {
			t.Errorf("reported(%q, %q) = %q, want %q", c.kubernetes, c.berth, got, c.want)
		}
	}
	own := reported(kubeversion.Get().GitVersion, "v0.2.0-5-gabcdef0")
	if err := kubeversion.ValidateDynamicVersion(own); err != nil {
		t.Fatalf("%s: %v", own, err)
	}
}
