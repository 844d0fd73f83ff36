package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// between returns the seconds since the start for which Between passes the use of a workload.
func between(t *testing.T, h *History, from, until int) (all []int) {
	t.Helper()
	at := func(second int) int64 { return start.Add(time.Duration(second) * time.Second).UnixMilli() }
	err := h.Between(at(from), at(until), func(s Stretch) error {
		w, err := s.Of("shop/web-0/app")
		if err != nil {
			return err
		}
		if !slices.Contains(s.Names(), "shop/web-0/app") || len(w.Limit) != len(s.Times()) || len(w.Above) != len(s.Times()) {
			t.Errorf("names %v, %d of %d samples", s.Names(), len(w.Limit), len(s.Times()))
		}
		for _, one := range s.Times() {
			all = append(all, int(one-at(0))/1000)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBetween checks that samples on disk and in memory are combined, each sample once, also after a restart. A Stretch
// has its complete minute.
func TestBetween(t *testing.T) {
	dir := t.TempDir()
	h, _ := kept(dir, roomy)
	spend(h, 0, 90)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h, _ = kept(dir, roomy)
	spend(h, 100, 230)
	want := make([]int, 0, 220)
	for second := range 230 {
		if second < 90 || second >= 100 {
			want = append(want, second)
		}
	}
	if got := between(t, h, 0, 300); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := between(t, h, 10, 20); !slices.Equal(got, want[:60]) {
		t.Errorf("of the first minute %v", got)
	}
	if got := between(t, h, 225, 300); !slices.Equal(got, want[210:]) {
		t.Errorf("of the minute that is open %v", got)
	}
	if got := between(t, h, 90, 99); len(got) != 0 {
		t.Errorf("of the time without an agent %v", got)
	}
	if got := between(t, h, 400, 500); len(got) != 0 {
		t.Errorf("of the future %v", got)
	}
}

// TestBetweenEnds checks that an error of the reader ends Between. Damage on the disk does not; the damaged file is set
// aside.
func TestBetweenEnds(t *testing.T) {
	dir := t.TempDir()
	h, _ := kept(dir, roomy)
	spend(h, 0, 180)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h, log := kept(dir, roomy)
	enough, calls := errors.New("enough"), 0
	if err := h.Between(0, start.Add(time.Hour).UnixMilli(), func(Stretch) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	path := filepath.Join(dir, names(t, dir)[0])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 0xff
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := between(t, h, 0, 300); len(got) != 120 {
		t.Errorf("%d samples before the damage, want 120: %s", len(got), log)
	}
	if all := names(t, dir); len(all) != 2 || !slices.ContainsFunc(all, func(n string) bool { return filepath.Ext(n) == damaged }) {
		t.Errorf("files %v", all)
	}
}

// TestFaultOfTheWriter checks that a reader hears of columns that cannot be read under a valid checksum: a gap without a
// word would look as if there had been no agent. The file is not damaged, and stays.
func TestFaultOfTheWriter(t *testing.T) {
	dir := t.TempDir()
	unfinished := minute{times: []int64{start.UnixMilli()}, names: []string{"shop/web-0/app"}, ends: []uint32{1}, text: []byte{0x80}}
	name := "1.history"
	if err := os.WriteFile(filepath.Join(dir, name), append([]byte(fileHead), unfinished.block()...), 0o600); err != nil {
		t.Fatal(err)
	}
	h, log := kept(dir, roomy)
	if _, _, err := h.Of("shop/web-0/app", Kept, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("of the workload: %v", err)
	}
	err := h.Between(0, start.Add(time.Hour).UnixMilli(), func(s Stretch) error {
		_, err := s.Of("shop/web-0/app")
		return err
	})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("between two times: %v", err)
	}
	if all := names(t, dir); !slices.Equal(all, []string{name}) || log.Len() > 0 {
		t.Errorf("files %q, %s", all, log)
	}
}
