package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	mapsText = `00400000-00401000 r-xp 00000000 fe:01 42                         /usr/bin/a b
00600000-00601000 rw-p 00000000 fe:01 42                         /usr/bin/a b
01000000-01800000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000200000 rw-s 00000000 00:0f 77                 /anon_hugepage (deleted)
7f0000400000-7f0000600000 rw-s 00000000 00:2b 5                  /dev/shm/x
7f0000600000-7f0000800000 rw-s 00000000 00:01 6                  /dev/zero (deleted)
7f0000800000-7f0000a00000 rw-s 00000000 00:01 7                  /memfd:x (deleted)
7f0000a00000-7f0000c00000 rw-s 00000000 00:01 8                  /SYSV00000000 (deleted)
7f0000c00000-7f0000e00000 rw-p 00000000 00:2c 8                  /mnt/huge/x
7f0000e00000-7f0001000000 rw-s 00000000 fe:01 9                  /data/x
7f0001000000-7f0001200000 rw-s 00000000 00:06 10                 /dev/infiniband/uverbs0
7f0001200000-7f0001400000 rw-s 00000000 00:0e 10                 anon_inode:[vfio-device]
7f0001400000-7f0001600000 rw-p 00000000 00:00 0 
7f0010000000-7ff010000000 ---p 00000000 00:00 0 
7ff100000000-7ff100200000 rw-s 00000000 00:01 10                 [anon_shmem:x]
7ff200000000-7ff200200000 rw-s 00000000 fe:01 11                 /memfd:x
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0                  [vvar]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	mountsText = `22 1 254:1 / / rw - ext4 /dev/vda1 rw
23 22 0:43 / /dev/shm rw,nosuid - tmpfs tmpfs rw
24 22 0:44 / /mnt/huge rw - hugetlbfs none rw,pagesize=2M
`
	zonesText = `Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 695072
  pages free     3840
        boost    0
        min      10
        low      13
        high     16
        spanned  4095
        protection: (0, 3019, 24090, 24090, 24090)
  pagesets
    cpu: 0
              count:    0
              high:     0
Node 0, zone   Normal
  pages free     900
        min      100
        low      125
        high     150
        protection: (0, 0, 0, 0, 0)
Node 1, zone   Normal
  pages free     7
        min      1
        low      2
        high     3
        protection: (0, 0, 0, 0, 0)
Node 1, zone  Movable
  pages free     0
        min      0
        low      0
        high     0
        protection: (0, 0, 0, 0, 0)
`
	nodeText = `Node 1 MemTotal:       24684092 kB
Node 1 MemFree:        12014260 kB
Node 1 Active(file):    4890736 kB
Node 1 Inactive(file):  3410436 kB
Node 1 Dirty:              5612 kB
Node 1 HugePages_Total:     0
`
	buddyText = `Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32     15     19     25     21     22     22     16     20     18     15    737 
Node 1, zone   Normal  16591   3875   2203   1403   1066    362    669    122     61    188   1938 
`
)

func TestParseMaps(t *testing.T) {
	t.Parallel()
	devices, err := parseDevices(strings.NewReader(mountsText))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]mount{"fe:01": {}, "00:2b": {kind: Shared}, "00:2c": {Huge, 2 << 20}}, devices, cmp.AllowUnexported(mount{})); diff != "" {
		t.Error(diff)
	}
	all, err := parseMaps(strings.NewReader(mapsText), devices)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for _, m := range all {
		kinds = append(kinds, m.Kind)
	}
	want := []Kind{Private, Private, Private, Huge, Shared, Shared, Shared, Shared, Huge, File, Device, Device, Private, Reserved, Shared, File, Private, File, File}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	for i, want := range map[int]string{4: "00:2b 5", 5: "00:01 6", 6: "00:01 7", 7: "00:01 8", 8: "", 9: "", 12: "", 14: "00:01 10"} {
		if got := all[i].Memory; got != want {
			t.Errorf("mapping %d: memory %q, want %q", i, got, want)
		}
	}
	if m := all[2]; m.Start != 0x1000000 || m.End != 0x1800000 {
		t.Errorf("%+v", m)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"
	for text, want := range map[string]stat{
		"7 (a) S" + rest:            {start: 4711},
		"7 (a) Z (b) c) R" + rest:   {start: 4711},
		"7 (new\nline) Z" + rest:    {dead: true, start: 4711},
		"7 (a) X" + rest + " 1 2 3": {dead: true, start: 4711},
	} {
		if got, err := parseStat([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7 a S", "7 (a) S 1 2", "7 (a) S" + strings.Replace(rest, "4711", "-1", 1)} {
		if got, err := parseStat([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Policy{
		"00400000 default":                                                  {Start: 0x400000},
		"7f00 local anon=1 N0=1 kernelpagesize_kB=4":                        {Start: 0x7f00, PageSize: 4096, Bytes: []int64{4096}, Anonymous: 4096},
		"7f00 bind:0 file=/x huge":                                          {Start: 0x7f00, Own: true, Rebinds: true, Huge: true, File: true},
		"7f00 prefer (many):0-1 anon=1":                                     {Start: 0x7f00, Own: true, Rebinds: true},
		"7f00 prefer (many)=static:0-1 anon=1":                              {Start: 0x7f00, Own: true},
		"7f00 weighted interleave:0-1":                                      {Start: 0x7f00, Own: true, Rebinds: true},
		"7f00 weighted interleave=static:0-1":                               {Start: 0x7f00, Own: true},
		"7f00 interleave=static:0-1":                                        {Start: 0x7f00, Own: true},
		"7f00 bind=relative:0-1":                                            {Start: 0x7f00, Own: true, Rebinds: true, Relative: true},
		"7f00 bind=relative|balancing:0":                                    {Start: 0x7f00, Own: true, Rebinds: true, Relative: true},
		"7f00 weighted interleave=relative:0-1":                             {Start: 0x7f00, Own: true, Rebinds: true, Relative: true},
		"7f00 bind:0 file=/x=relative":                                      {Start: 0x7f00, Own: true, Rebinds: true, File: true},
		"7f00 bind:0 file=/x=static":                                        {Start: 0x7f00, Own: true, Rebinds: true, File: true},
		"7f00 default file=/anon_hugepage huge N1=2 kernelpagesize_kB=2048": {Start: 0x7f00, Huge: true, File: true, PageSize: 2 << 20, Bytes: []int64{0, 4 << 20}},
		"7f00 default stack anon=3 N0=1 N2=2 kernelpagesize_kB=4":           {Start: 0x7f00, PageSize: 4096, Bytes: []int64{4096, 0, 8192}, Anonymous: 12288},
		"7f00 default anon=2 dirty=2 mapmax=1 N0=2 kernelpagesize_kB=4":     {Start: 0x7f00, PageSize: 4096, Bytes: []int64{8192}, Anonymous: 8192},
		"7f00 default anon=2 mapmax=10 N0=2 kernelpagesize_kB=4":            {Start: 0x7f00, PageSize: 4096, Bytes: []int64{8192}, Anonymous: 8192, Shared: true},
	} {
		if start, got, err := parsePolicy(line); err != nil || start != want.Start || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %x, %+v, %v, want %+v", line, start, got, err, want)
		}
	}
	for _, line := range []string{"", "7f00", "xyz default", "7f00 default kernelpagesize_kB=-4", "7f00 default N0=x", "7f00 default N1024=1", "7f00 default N-1=1", "7f00 default anon=x", "7f00 default mapmax=-1"} {
		if _, _, err := parsePolicy(line); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestParseNodes(t *testing.T) {
	t.Parallel()
	zones, err := parseZones(zonesText)
	want := map[int]Zones{
		0: {Min: 110 * Size, Low: 138 * Size, High: 166 * Size, Kept: 3840 * Size},
		1: {Min: 1 * Size, Low: 2 * Size, High: 3 * Size},
	}
	if diff := cmp.Diff(want, zones); diff != "" || err != nil {
		t.Error(diff, err)
	}
	memory, err := parseNode(nodeText)
	if want := (NodeMemory{Total: 24684092 << 10, Free: 12014260 << 10, InactiveFile: 3410436 << 10, Dirty: 5612 << 10}); memory != want || err != nil {
		t.Errorf("%+v, %v", memory, err)
	}
	blocks, err := parseBlocks(buddyText)
	if diff := cmp.Diff(map[int]int64{0: 15 + 2*737, 1: 188 + 2*1938}, blocks); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if kib, err := numberOf("Name:\ta\nVmPin:\t     12 kB\n", "VmPin:"); kib != 12 || err != nil {
		t.Errorf("%d, %v", kib, err)
	}
}

// nodeFiles are the files of a host, by name.
type nodeFiles map[string]string

func (f nodeFiles) ReadFile(name string) ([]byte, error) {
	text, has := f[name]
	if !has {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

// TestReadNodes checks that the nodes with memory are there with the reserves of their zones taken off, and that the
// swap space of the host is that of each node.
func TestReadNodes(t *testing.T) {
	const meminfo = "sys/devices/system/node/node%d/meminfo"
	files := nodeFiles{
		"proc/zoneinfo": "Node 0, zone   DMA\n  pages free     3\n        min      1\n        protection: (0, 2)\n" +
			"Node 1, zone   Normal\n  pages free     5\n        min      1\nNode 2, zone   Normal\n  pages free     0\nNode 3, zone   Normal\n",
		"proc/meminfo":          "SwapFree: 8 kB\n",
		fmt.Sprintf(meminfo, 0): "Node 0 MemTotal: 64 kB\nNode 0 MemFree: 12 kB\n",
		fmt.Sprintf(meminfo, 1): "Node 1 MemTotal: 32 kB\nNode 1 MemFree: 20 kB\n",
		fmt.Sprintf(meminfo, 2): "Node 2 MemTotal: 0 kB\n", // node 3 has no files
	}
	got, err := ReadNodes(files)
	want := map[int]NodeMemory{
		0: {Total: 64 << 10, Free: 12<<10 - 2*Size, Min: Size, Swap: 8 << 10},
		1: {Total: 32 << 10, Free: 20 << 10, Min: Size, Swap: 8 << 10},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	files[fmt.Sprintf(meminfo, 1)] = "Node 1 MemTotal: x kB\n"
	if got, err := ReadNodes(files); !errors.Is(err, ErrMalformed) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzParsers gives arbitrary text to all parsers. None may panic, and accepted values must be plausible.
func FuzzParsers(f *testing.F) {
	for _, text := range []string{
		mapsText, mountsText, zonesText, nodeText, buddyText, "7f00 bind:0 anon=1 kernelpagesize_kB=4\n", "VmPin:\t1 kB\n",
		"7f00-7f01 rw-p 0 0:0 0\nAnonHugePages: 2048 kB\n", "7 (a) S 1", "pswpout 1\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		devices, err := parseDevices(strings.NewReader(text))
		if err != nil {
			devices = nil
		}
		all, err := parseMaps(strings.NewReader(text), devices)
		for i, m := range all {
			if err == nil && (m.End <= m.Start || i > 0 && m.Start < all[i-1].End) {
				t.Errorf("%+v after %+v", m, all[i-1])
			}
		}
		if zones, err := parseZones(text); err == nil {
			for _, z := range zones {
				if z.Min < 0 || z.Low < 0 || z.High < 0 || z.Kept < 0 {
					t.Errorf("%+v", z)
				}
			}
		}
		if m, err := parseNode(text); err == nil && (m.Total <= 0 || m.Free < 0 || m.InactiveFile < 0 || m.Dirty < 0) {
			t.Errorf("%+v", m)
		}
		if blocks, err := parseBlocks(text); err == nil {
			for _, n := range blocks {
				if n < 0 {
					t.Error(n)
				}
			}
		}
		if s, err := parseStat([]byte(text)); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(s, err)
		}
		if _, p, err := parsePolicy(text); err == nil && p.PageSize < 0 {
			t.Errorf("%+v", p)
		}
		if kib, err := numberOf(text, "VmPin:"); err == nil && kib < 0 {
			t.Error(kib)
		}
		b := &Blocks{huge: map[uint64]bool{}, until: math.MaxUint64}
		if _, err := b.read(text, 0); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
}
