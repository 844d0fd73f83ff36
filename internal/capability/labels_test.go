package capability

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabelsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"shop/web-0/app": {"shop", "web-0", "app", ""},
		"shop/web-0":     {"shop", "web-0", "", ""},
		"redis":          {"", "", "", "redis"},
	} {
		if diff := cmp.Diff(want, LabelsOf(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
