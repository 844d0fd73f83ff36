package cli

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
)

// TestWhatEndedAProfile: the list blames a boot only if a boot ended the profile, and names apply --committed only for
// a committed one.
func TestWhatEndedAProfile(t *testing.T) {
	for want, f := range map[string]inForce{
		"committed before the last boot, which ended it: berth tune apply --committed":                                   {},
		"is committed, and not in force since an apply of it was undone: berth tune apply --committed":                   {Undone: true},
		"was committed before the last boot; its boot arguments are on trial: berth tune verify, then berth tune commit": {Boot: string(tuner.OnTrial)},
		"is applied and committed":                               {ThisBoot: true},
		"was not committed before the last boot, which ended it": {Phase: string(tuner.Trial)},
	} {
		if f.Profile = "p"; f.Phase == "" {
			f.Phase = string(tuner.Committed)
		}
		if got := f.String(); !strings.HasPrefix(got, "profile p ") || !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
