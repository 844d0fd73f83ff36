package cli

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
)

// TestWhatEndedACommittedProfile: the list blames a boot only if a boot ended the profile.
func TestWhatEndedACommittedProfile(t *testing.T) {
	for want, f := range map[string]inForce{
		"committed before the last boot, which ended it: berth tune apply --committed":                                   {},
		"is committed, and not in force since an apply of it was undone: berth tune apply --committed":                   {Undone: true},
		"was committed before the last boot; its boot arguments are on trial: berth tune verify, then berth tune commit": {Boot: string(tuner.OnTrial)},
		"is applied and committed": {ThisBoot: true},
	} {
		f.Profile, f.Phase = "p", string(tuner.Committed)
		if got := f.String(); !strings.HasPrefix(got, "profile p ") || !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
