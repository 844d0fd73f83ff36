package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo answers `go env` as the real command. Any other call writes its environment to a file and fails, which ends
// the script.
const fakeGo = `#!/bin/sh
[ "$1" = env ] && exec go "$@"
env | grep ^GO >"$SEEN"
exit 1
`

// TestDistBuildsAsConfigured: what says where modules come from also counts for the release, while what changes a
// program does not: neither from `go env -w` nor from the caller's environment.
func TestDistBuildsAsConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	settings := "GOPROXY=https://proxy.example\nGOPRIVATE=git.example\nGOMODCACHE=" + at("modules") + "\nGOAMD64=v3\nGOFIPS140=latest\n"
	if err := os.WriteFile(at("settings"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("go"), []byte(fakeGo), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../tools/dist.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, at("out"), "v1.2.3", "") //nolint:gosec // the tree's own script
	cmd.Dir = dir
	for _, one := range os.Environ() {
		if name, _, _ := strings.Cut(one, "="); !strings.HasPrefix(name, "GO") {
			cmd.Env = append(cmd.Env, one)
		}
	}
	cmd.Env = append(cmd.Env, "GO="+at("go"), "SEEN="+at("seen"), "GOENV="+at("settings"), "SOURCE_DATE_EPOCH=1",
		"GOAMD64=v2", "GOARM64=v9.0", "GOEXPERIMENT=arenas")
	said, _ := cmd.CombinedOutput() // it fails at its first build
	seen, err := os.ReadFile(at("seen"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	got := "\n" + string(seen)
	for _, want := range []string{
		"GOPROXY=https://proxy.example", "GOPRIVATE=git.example", "GONOSUMDB=git.example", "GOMODCACHE=" + at("modules"),
		"GOENV=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off",
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s is not in the environment of the build:%s", want, got)
		}
	}
}
