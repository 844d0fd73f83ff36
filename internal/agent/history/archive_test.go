package history

import (
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/kernel"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
	"github.com/berth-project/berth/test/disk"
)

// kept returns a History with a directory, and its log.
func kept(dir string, l Limits) (*History, *strings.Builder) {
	var log strings.Builder
	h := New(Options{Dir: dir, Limits: l, Log: slog.New(slog.NewTextHandler(&log, nil))})
	h.open()
	return h, &log
}

var roomy = Limits{Retention: 24 * time.Hour, Bytes: 64 << 20}

// spend adds the seconds from..until-1 of two workloads.
func spend(h *History, from, until int) {
	for second := from; second < until; second++ {
		h.Add(start.Add(time.Duration(second)*time.Second), many(2, second))
	}
}

// names returns the names of the files of a directory.
func names(t interface{ Fatal(...any) }, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// stored leaves 200 seconds of two workloads in a directory, and returns the path of their only file.
func stored(t *testing.T, dir string) (path string) {
	t.Helper()
	h, _ := kept(dir, roomy)
	spend(h, 0, 200)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, names(t, dir)[0])
}

// flip changes a bit of a file. It returns the content that the file has now.
func flip(t *testing.T, path string, at func(size int) int) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		text[at(len(text))] ^= 1
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// end and middle are places in a file.
func end(size int) int    { return size - 1 }
func middle(size int) int { return size / 2 }

// seconds returns the seconds since the start for which there are samples.
func seconds(t interface{ Fatal(...any) }, h *History, back int) []int {
	p, found, err := h.Of("shop/web-0/app", back, 1)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	var all []int
	for i, at := range p.Times {
		if !math.IsNaN(p.Workloads[0].Limit[i]) {
			all = append(all, int((at-start.UnixMilli())/1000))
		}
	}
	return all
}

// count returns the numbers from..until-1.
func count(from, until int) (all []int) {
	for n := from; n < until; n++ {
		all = append(all, n)
	}
	return all
}

// TestHistorySurvivesARestart checks that a reopened History has all samples of its predecessor, up to the last second,
// and continues.
func TestHistorySurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	h, _ := kept(dir, roomy)
	spend(h, 0, 100)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h, log := kept(dir, roomy)
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 100)) {
		t.Errorf("after a restart: %v", got)
	}
	spend(h, 130, 330)
	if got := seconds(t, h, Kept); !slices.Equal(got, append(count(0, 100), count(130, 330)...)) {
		t.Errorf("after some more: %v", got)
	}
	if got := seconds(t, h, 250); !slices.Equal(got, append(count(80, 100), count(130, 330)...)) {
		t.Errorf("of the last seconds: %v", got)
	}
	spend(h, 330, 2000) // more than fits in memory
	if got := seconds(t, h, Kept); !slices.Equal(got, count(1100, 2000)) || log.Len() > 0 {
		t.Errorf("at last: %v; %s", got, log)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
}

// TestSamplesAreJoined checks that samples are joined if more are requested than are shown: counts are added, use and
// credit are averaged, and of other values the last is used.
func TestSamplesAreJoined(t *testing.T) {
	dir := t.TempDir()
	h, _ := kept(dir, roomy)
	const hours = 2
	spend(h, 0, hours*3600)
	whole, err := h.ring.recent(Kept)
	if err != nil || len(whole.Times) < 800 {
		t.Fatal(err)
	}
	for step, want := range map[int]int{1: 900, 60: hours * 60, 3600: hours} {
		p, found, err := h.Of("shop/web-1/app", hours*3600, step)
		if !found || err != nil || len(p.Times) > want+1 || len(p.Times) < want {
			t.Fatalf("step %d: %d samples: %v", step, len(p.Times), err)
		}
		w, sum := p.Workloads[0], 0.0
		for i := range p.Times {
			if sum += w.Periods[i]; math.Abs(w.Used[i]-1) > 0.5 || p.Node[i] != 1 || w.Limit[i] != 2 || w.Capacity[i] != 120 || w.Credit[i] < 0 || w.Credit[i] > 120 {
				t.Fatalf("step %d, sample %d: %+v", step, i, w)
			}
		}
		if want := 10.0 * (hours*3600 - 1); sum != want {
			t.Errorf("step %d: %v periods, want %v", step, sum, want)
		}
		if mean := slices.Max(w.Credit) - slices.Min(w.Credit); step == 3600 && mean > 10 {
			t.Errorf("the means of credit are %v", w.Credit)
		}
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
}

// TestClockSetBack checks that the last samples are those that were added last, even when the clock is set back.
func TestClockSetBack(t *testing.T) {
	h, log := kept(t.TempDir(), roomy)
	spend(h, 10_000, 10_200)
	spend(h, 0, 200)
	got := seconds(t, h, 100)
	if n := len(got); n < 100 || !slices.Equal(got[n-100:], count(100, 200)) || log.Len() > 0 {
		t.Errorf("%v; %s", got, log)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
}

// TestArchiveIsBounded checks that files are bounded in time and bytes, and that the oldest files are removed.
func TestArchiveIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		limits      Limits
		least, most int
	}{
		"bytes":     {Limits{Retention: 1000 * time.Hour, Bytes: 200_000}, 9000, 11 * 3600},
		"retention": {Limits{Retention: 3 * time.Hour, Bytes: 64 << 20}, 3 * 3600, 4*3600 + 120},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h, log := kept(dir, test.limits)
			const all = 12 * 3600
			spend(h, 0, all)
			size := int64(0)
			for _, file := range names(t, dir) {
				info, err := os.Stat(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			if size > test.limits.Bytes || size != h.disk().bytes() {
				t.Errorf("%d bytes on disk, %d counted", size, h.disk().bytes())
			}
			p, _, err := h.Of("shop/web-0/app", all, 1)
			if err != nil {
				t.Fatal(err)
			}
			if back := int(p.Times[len(p.Times)-1]-p.Times[0]) / 1000; back < test.least || back > test.most {
				t.Errorf("it goes back %d s, want %d to %d; %d bytes", back, test.least, test.most, size)
			}
			if log.Len() > 0 {
				t.Error(log)
			}
			if err := h.close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDamagedFiles checks that everything before a fault in a file survives, and so do the other files. A file
// truncated by the death of an agent does not count as damaged.
func TestDamagedFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "history-*") //nolint:usetesting // rapid has no TempDir
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h, _ := kept(dir, roomy)
		spend(h, 0, 200)
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		h, _ = kept(dir, roomy)
		spend(h, 200, 260)
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, names(t, dir)[0])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		isCut := rapid.Bool().Draw(t, "cut")
		if isCut {
			text = text[:at]
		} else {
			text[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, log := kept(dir, roomy)
		got := seconds(t, h, Kept)
		first := slices.Index(got, 200)
		if first < 0 || !slices.Equal(got[first:], count(200, 260)) || !slices.Equal(got[:first], count(0, first)) || first%samples != 0 && first != 200 {
			t.Fatalf("damage at %d of %d: %v\n%s", at, len(text), got, log)
		}
		if aside := slices.ContainsFunc(names(t, dir), func(name string) bool { return strings.HasSuffix(name, damaged) }); aside == isCut || strings.Contains(log.String(), "set aside") == isCut {
			t.Fatalf("cut %t, set aside %t: %s", isCut, aside, log)
		}
		again, said := kept(dir, roomy)
		if said.Len() > 0 || !slices.Equal(seconds(t, again, Kept), got) {
			t.Fatalf("opened again: %s", said)
		}
	})
}

// TestDamageIsFoundWhenRead checks that a file which is damaged under an open History is set aside when it is read
// next.
func TestDamageIsFoundWhenRead(t *testing.T) {
	dir := t.TempDir()
	path := stored(t, dir)
	h, log := kept(dir, roomy)
	flip(t, path, end)
	for range 2 {
		if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 180)) {
			t.Errorf("%v", got)
		}
	}
	if all := names(t, dir); len(all) != 2 || !strings.HasSuffix(all[1], damaged) || strings.Count(log.String(), "set aside") != 1 {
		t.Errorf("%q, %s", all, log)
	}
}

// TestFullDisk checks that a full disk stops writing, and that this is logged once. The history in memory continues,
// and the disk is used again when there is room.
func TestFullDisk(t *testing.T) {
	dir := disk.Small(t)
	h, log := kept(dir, roomy)
	spend(h, 0, 120)
	disk.Fill(t, dir)
	spend(h, 120, 600)
	if s := h.Size(); !s.Stopped || s.Stored != h.disk().bytes() {
		t.Errorf("size %+v", s)
	}
	if strings.Count(log.String(), "history stops") != 1 || strings.Contains(log.String(), "goes on") && !strings.Contains(log.String(), "all else goes on") {
		t.Errorf("log %s", log)
	}
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 600)) {
		t.Errorf("in memory: %v", got)
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	spend(h, 600, 720)
	if h.Size().Stopped || !strings.Contains(log.String(), "history goes on") {
		t.Errorf("log %s", log)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h, log = kept(dir, roomy)
	got := seconds(t, h, Kept)
	if !slices.Contains(got, 0) || !slices.Contains(got, 719) || slices.Contains(got, 300) || log.Len() > 0 {
		t.Errorf("on disk: %v; %s", got, log)
	}
}

// TestDamageOnAFullDisk checks that a damaged file stays where it is while there is no room for a copy of its valid part.
// That part is read, the whole file counts, and the next start with room sets the file aside.
func TestDamageOnAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	path := stored(t, dir)
	name := filepath.Base(path)
	h, log := kept(dir, roomy)
	text := flip(t, path, end)
	ballast := disk.Fill(t, dir)
	for range 2 {
		if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 180)) {
			t.Errorf("without room: %v", got)
		}
	}
	if all := names(t, dir); !slices.Equal(all, []string{name, filepath.Base(ballast)}) || strings.Count(log.String(), "cannot be set aside") != 1 {
		t.Errorf("without room: %q, %s", all, log)
	}
	if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, text) || h.disk().bytes() != int64(len(text)) {
		t.Errorf("without room: %d bytes of %d, %d counted, %v", len(now), len(text), h.disk().bytes(), err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h, log = kept(dir, roomy)
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 180)) || strings.Count(log.String(), "is set aside") != 1 {
		t.Errorf("with room: %v, %s", got, log)
	}
	if all := names(t, dir); !slices.Equal(all, []string{name, name + damaged}) {
		t.Errorf("with room: %q", all)
	}
}

// TestDamageAfterAFullDisk checks that a file which had to stay is set aside once there is room, when a reader finds
// damage before the first. What is before both damages stays readable.
func TestDamageAfterAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	path := stored(t, dir)
	name := filepath.Base(path)
	h, _ := kept(dir, roomy)
	flip(t, path, end)
	ballast := disk.Fill(t, dir)
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 180)) {
		t.Errorf("without room: %v", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	flip(t, path, middle)
	_ = seconds(t, h, Kept) // finds the damage
	got := seconds(t, h, Kept)
	if len(got) == 0 || len(got) >= 180 || !slices.Equal(got, count(0, len(got))) {
		t.Errorf("with room: %v", got)
	}
	if again := seconds(t, h, Kept); !slices.Equal(again, got) || !slices.Equal(names(t, dir), []string{name, name + damaged}) {
		t.Errorf("once more: %v, %q", again, names(t, dir))
	}
}

// TestUnreadableFile checks that a file which cannot be read at the moment stays as it is: a directory in its place fails
// each read.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	path := stored(t, dir)
	h, log := kept(dir, roomy)
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	files := h.disk().check(h.disk().files[0])
	if len(files) != 1 || files[0] != h.disk().files[0] || !strings.Contains(log.String(), "cannot be read") {
		t.Errorf("%+v, %s", files, log)
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
	if got := seconds(t, h, Kept); !slices.Contains(got, 0) || !slices.Contains(got, 179) {
		t.Errorf("again readable: %v", got)
	}
}

// TestDraft checks that the next agent finishes setting a file aside, wherever the death of an agent ended it.
func TestDraft(t *testing.T) {
	path := stored(t, t.TempDir())
	name := filepath.Base(path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	faulty := flip(t, path, end)
	for what, test := range map[string]struct {
		files map[string][]byte
		want  []string
		until int
	}{
		"while it wrote":      {map[string][]byte{name: faulty, name + draft: whole[:40]}, []string{name, name + damaged}, 180},
		"before it renamed":   {map[string][]byte{name: faulty, name + draft: whole}, []string{name, name + damaged}, 180},
		"between its renames": {map[string][]byte{name + damaged: faulty, name + draft: whole}, []string{name, name + damaged}, 200},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h, log := kept(dir, roomy)
			if got := seconds(t, h, Kept); !slices.Equal(got, count(0, test.until)) {
				t.Errorf("%v, want %d seconds; %s", got, test.until, log)
			}
			if all := names(t, dir); !slices.Equal(all, test.want) {
				t.Errorf("files %q, want %q", all, test.want)
			}
			sum := int64(0)
			for _, name := range test.want {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				sum += info.Size()
			}
			if got := h.disk().bytes(); got != sum {
				t.Errorf("%d bytes counted, %d on disk", got, sum)
			}
		})
	}
}

// TestDraftIsSynced checks that the copy of a valid part takes the place of a damaged file only once it is on the disk.
// The null device takes each write, and refuses to sync.
func TestDraftIsSynced(t *testing.T) {
	dir := t.TempDir()
	path := stored(t, dir)
	name := filepath.Base(path)
	faulty := flip(t, path, end)
	if err := os.Symlink(os.DevNull, path+draft); err != nil {
		t.Fatal(err)
	}
	h, log := kept(dir, roomy)
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 180)) || !strings.Contains(log.String(), "cannot be set aside") {
		t.Errorf("%v; %s", got, log)
	}
	if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, faulty) {
		t.Errorf("%d bytes, %v; want the damaged file, with %d", len(now), err, len(faulty))
	}
	if all := names(t, dir); !slices.Equal(all, []string{name}) {
		t.Errorf("files %q", all)
	}
}

// TestUnfinishedFileCounts checks that a draft which cannot be removed is a file of the archive, so that limits of size
// and age remove it. A directory with content stands for the draft: os.Remove refuses it.
func TestUnfinishedFileCounts(t *testing.T) {
	dir := t.TempDir()
	f := file{name: "1" + ending + draft, size: 7, last: 3}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "1"+ending), nil, 0o600), os.MkdirAll(filepath.Join(dir, f.name, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	a := &archive{dir: dir, log: slog.New(slog.DiscardHandler)}
	if got := a.finish(f); !slices.Equal(got, []file{f}) {
		t.Errorf("%+v", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, f.name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, f.name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.finish(f); got != nil {
		t.Errorf("%+v of a draft that is removed", got)
	}
}

// TestNoDirectory checks that only memory is used if the directory cannot be created.
func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, log := kept(dir, roomy)
	spend(h, 0, 100)
	if got := seconds(t, h, Kept); !slices.Equal(got, count(0, 100)) || !strings.Contains(log.String(), "in memory only") {
		t.Errorf("%v; %s", got, log)
	}
	if !h.Size().Stopped {
		t.Error("it does not say that nothing is written")
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReadDay reads a day of one of a hundred busy workloads.
func BenchmarkReadDay(b *testing.B) {
	h, _ := kept(b.TempDir(), roomy)
	for second := range 24 * 3600 {
		h.Add(start.Add(time.Duration(second)*time.Second), many(100, second))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := h.Of("shop/web-0/app", 24*3600, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(h.disk().bytes())/(1<<20), "MiB")
	if err := h.close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkHours keeps two hours of 5,000 busy series, one sample per second. It reports the CPU time of this thread
// per sample, also with a disk, and the memory of the history: of the heap, and of the process including uncollected
// heap.
func BenchmarkHours(b *testing.B) {
	const workloads, hours = 5000 / measures, 2
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		used, err := kernel.ThreadCPUTime()
		if err != nil {
			b.Fatal(err)
		}
		return used
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	var took time.Duration
	var has, stored float64
	for b.Loop() {
		before := heap()
		h, said := kept(b.TempDir(), roomy)
		for second := range hours * 3600 {
			all := many(workloads, second)
			began := spent()
			h.Add(start.Add(time.Duration(second)*time.Second), all)
			took += spent() - began
		}
		has, stored = heap()-before, float64(h.disk().bytes())/(1<<20)
		if n := len(seconds(b, h, Kept)); n < Kept || said.Len() > 0 {
			b.Fatalf("%d seconds are kept: %s", n, said)
		}
		if err := h.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N*hours*3600), "cpu-µs/sample")
	b.ReportMetric(has, "MiB-heap")
	b.ReportMetric(stored/hours, "MiB-disk/hour")
}

// FuzzBlock checks that any text is a block or damaged, and that a block is written as it was read.
func FuzzBlock(f *testing.F) {
	h := New(Options{})
	spend(h, 0, 59)
	f.Add(h.ring.rest().block()[blockHead:])
	f.Add((&minute{times: []int64{5}}).block()[blockHead:])
	f.Add([]byte{1, 2, 1, 1, 'a', 1, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readBlock(text)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
			return
		}
		again, err := readBlock(m.block()[blockHead:])
		if err != nil || !slices.Equal(again.times, m.times) || !slices.Equal(again.names, m.names) || !slices.Equal(again.ends, m.ends) || !slices.Equal(again.text, m.text) {
			t.Fatalf("%+v, then %+v: %v", m, again, err)
		}
		for _, name := range append(m.names, node) {
			all := fold{name: name, from: math.MinInt64, until: math.MaxInt64}
			if err := all.add(m); err != nil && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
		}
	})
}
