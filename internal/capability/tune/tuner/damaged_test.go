package tuner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/journal"
)

// TestDeadlineOfADamagedJournalIsTriedAgain: the readable part of a damaged journal is restored like a whole journal,
// as soon as the kernel accepts it. The damage is reported at the end with the name of the preserved file.
func TestDeadlineOfADamagedJournalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		before := h.files()
		h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
		h.damages()
		file, aside := h.plain.Path(slice), h.plain.Path("aside")
		must(t, errors.Join(os.Rename(file, aside), os.Mkdir(file, 0o700))) // a directory accepts no value
		failed := 0
		h.step = func(step string) {
			if step != "an undo is recorded" { // once after a failed attempt
				return
			}
			if failed++; failed == 2 {
				must(t, errors.Join(os.Remove(file), os.Rename(aside, file)))
			}
		}
		h.boottime += confirm
		notes, err := tuner.Await(t.Context(), h.host())
		if !errors.Is(err, journal.ErrDamaged) || strings.Count(strings.Join(notes, "\n"), "kept as") != 1 || failed != 2 {
			t.Errorf("%d tries failed: %v, notes %q", failed, err, notes)
		}
		if d := cmp.Diff(before, h.files()); d != "" {
			t.Error(d)
		}
	})
}

// damages inserts an unreadable line at the beginning of the journal.
func (h *host) damages() {
	h.t.Helper()
	name := filepath.Join(h.state, "journal")
	text, err := os.ReadFile(name)
	must(h.t, err)
	lines := strings.SplitAfterN(string(text), "\n", 2)
	must(h.t, os.WriteFile(name, []byte(lines[0]+"damage\n"+lines[1]), 0o600))
}
