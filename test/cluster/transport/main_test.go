package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// usual are directories of a node that containerd's shim and the kubelet have whatever they
// are told.
func usual() []string {
	return []string{"/run/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers"}
}

// TestMain removes what the programs of the tests put there: a cluster that runs beside them
// looks at its end whether it left something.
func TestMain(m *testing.M) {
	before := map[string][]string{}
	var made []string
	for _, dir := range usual() {
		if _, err := os.Stat(dir); err != nil {
			made = append(made, dir)
		}
		before[dir] = entries(dir)
	}
	m.Run()
	for _, dir := range usual() {
		for _, one := range entries(dir) {
			if !slices.Contains(before[dir], one) {
				report(os.RemoveAll(one))
			}
		}
	}
	for _, dir := range made {
		_ = os.Remove(dir) // where it is still empty
	}
}

func entries(dir string) []string {
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	report(err)
	return all
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
	}
}
