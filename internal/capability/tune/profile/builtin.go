package profile

import (
	"embed"
	"path"
	"strings"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// BuiltIns returns the names of the built-in profiles, the mildest first.
func BuiltIns() []string {
	return []string{"balanced", "throughput", "low-latency", "dpdk", "numa-services", "hpc-sched"}
}

// BuiltIn returns the text of a built-in profile.
func BuiltIn(name string) (yaml []byte, ok bool) {
	text, err := builtin.ReadFile(path.Join("builtin", path.Base(name)+".yaml"))
	return text, err == nil
}

// About returns the comment in the first line of a profile's text.
func About(yaml []byte) string {
	first, _, _ := strings.Cut(string(yaml), "\n")
	if about, is := strings.CutPrefix(first, "#"); is {
		return strings.TrimSpace(about)
	}
	return ""
}
