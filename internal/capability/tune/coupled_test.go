package tune_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
)

// sysctls returns a host with these sysctls.
func sysctls(texts map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for file, text := range texts {
		tree["proc/sys/"+file] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
	}
	return tree
}

// TestCoupledSysctlsAreBlocked checks that a setting is blocked if its write changes other files whose values no undo
// can restore, unless its value is already in effect.
func TestCoupledSysctlsAreBlocked(t *testing.T) {
	tree := sysctls(map[string]string{
		"vm/dirty_bytes": "0", "vm/dirty_ratio": "20", "vm/dirty_background_bytes": "4096", "vm/dirty_background_ratio": "0",
		"vm/overcommit_kbytes": "0", "vm/overcommit_ratio": "50", "vm/swappiness": "60",
		"net/ipv4/ip_forward": "0", "net/ipv4/conf/all/forwarding": "0", "net/ipv4/conf/all/rp_filter": "0",
		"net/ipv6/conf/all/disable_ipv6": "0", "net/ipv6/conf/default/disable_ipv6": "0", "net/ipv6/conf/all/forwarding": "0",
		"net/ipv6/conf/eth0/disable_ipv6": "0", "net/ipv6/conf/eth1.7/disable_ipv6": "1", "net/ipv6/conf/eth0/forwarding": "0",
		"kernel/shm_rmid_forced": "0", "kernel/watchdog": "1", "kernel/nmi_watchdog": "0", "kernel/soft_watchdog": "1",
		"kernel/modules_disabled": "0", "kernel/kexec_load_disabled": "1", "kernel/unprivileged_bpf_disabled": "0",
		"kernel/yama/ptrace_scope": "1", "kernel/kexec_load_limit_panic": "-1",
	})
	for _, tt := range []struct{ key, value, why string }{
		{"vm.dirty_bytes", "1048576", "undo would lose vm.dirty_ratio=20"},
		{"vm.dirty_bytes", "0", ""},
		{"vm.dirty_ratio", "10", ""},
		{"vm/dirty_background_ratio", "5", "undo would lose vm.dirty_background_bytes=4096"},
		{"vm.overcommit_kbytes", "1024", "undo would lose vm.overcommit_ratio=50"},
		{"vm.overcommit_ratio", "80", ""},
		{"vm.swappiness", "1", ""},
		{"net.ipv4.ip_forward", "1", "undo would lose the interfaces' own values"},
		{"net.ipv4.conf.all.forwarding", "1", "undo would lose the interfaces' own values"},
		{"net.ipv4.conf.all.rp_filter", "1", ""},
		{"net.ipv6.conf.all.disable_ipv6", "1", "undo would lose the interfaces' own values"},
		{"net.ipv6.conf.all.disable_ipv6", "0", ""},
		{"net.ipv6.conf.all.disable_ipv6", "1", "and 1 their IPv6 addresses and routes"},
		{"net.ipv6.conf.all.forwarding", "1", "set each interface"},
		{"net.ipv6.conf.default.disable_ipv6", "1", ""}, // for future interfaces
		{"net.ipv6.conf.eth0.disable_ipv6", "1", "undo would lose the interface's IPv6 addresses and routes"},
		{"net.ipv6.conf.eth0.disable_ipv6", "2", "undo would lose the interface's IPv6 addresses and routes"},
		{"net.ipv6.conf.eth0.disable_ipv6", "0", ""},
		{"net.ipv6.conf.eth1/7.disable_ipv6", "1", ""}, // already in effect
		{"net.ipv6.conf.eth1/7.disable_ipv6", "0", ""},
		{"net.ipv6.conf.eth0.forwarding", "1", ""}, // lossy: the routers announce again what it removes
		{"kernel.shm_rmid_forced", "1", "undo would lose the shared memory"},
		{"kernel.shm_rmid_forced", "0", ""},
		{"kernel.watchdog", "0", "set kernel.nmi_watchdog or kernel.soft_watchdog"},
		{"kernel.watchdog", "1", ""}, // already in effect
		{"kernel.nmi_watchdog", "0", ""},
		{"kernel.nmi_watchdog", "1", ""},
		{"kernel.soft_watchdog", "0", "with this one all lockup detectors are off"},
		{"kernel.modules_disabled", "1", "undo would be refused: the kernel keeps 1 until the next boot"},
		{"kernel.modules_disabled", "0", ""},
		{"kernel.kexec_load_disabled", "1", ""}, // already in effect
		{"kernel.unprivileged_bpf_disabled", "1", "the kernel keeps 1"},
		{"kernel.unprivileged_bpf_disabled", "2", ""},
		{"kernel.yama.ptrace_scope", "3", "the kernel keeps 3"},
		{"kernel.yama.ptrace_scope", "2", ""},
		{"kernel.kexec_load_limit_panic", "5", "the kernel keeps 5"},
	} {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			k, known := knob.Lookup(knob.Prefix + tt.key)
			value, err := k.Parse(tt.value)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			survey := knob.Open(tree).Survey([]string{k.Name})
			bound := profile.Bound{Name: "test", Settings: []profile.Setting{{Knob: k, Value: value}}}
			d := tune.Make(bound, tune.Host{Survey: survey}, nil).Divide()
			switch {
			case tt.why == "" && len(d.Write) != 1:
				t.Errorf("%+v", d)
			case tt.why != "" && (len(d.Blocked) != 1 || !strings.Contains(d.Blocked[0].Why, tt.why)):
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestOneWatchdogStays checks that a profile may disable one lockup detector, but not both.
func TestOneWatchdogStays(t *testing.T) {
	t.Parallel()
	tree := sysctls(map[string]string{"kernel/nmi_watchdog": "1", "kernel/soft_watchdog": "1"})
	bound, survey := profile.Bound{Name: "test"}, knob.Survey{}
	for _, key := range []string{"kernel.nmi_watchdog", "kernel.soft_watchdog"} {
		k, _ := knob.Lookup(knob.Prefix + key)
		value, err := k.Parse("0")
		if err != nil {
			t.Fatal(err)
		}
		bound.Settings = append(bound.Settings, profile.Setting{Knob: k, Value: value})
		survey[k.Name] = knob.Open(tree).Probe(k)
	}
	d := tune.Make(bound, tune.Host{Survey: survey}, nil).Divide()
	got := tune.Read("x.conf", "kernel.nmi_watchdog = 0\nkernel.soft_watchdog = 0\n", knob.Open(tree), nil)
	if l := got.Lines; l[0].Verdict != tune.Kept || l[1].Verdict != tune.Unknown || !strings.Contains(l[1].Why, knob.LastWatchdog) {
		t.Errorf("imported: %+v", l)
	}
	if len(d.Write) != 1 || len(d.Blocked) != 1 || d.Blocked[0].Knob != "sysctl.kernel.soft_watchdog" || d.Blocked[0].Why != knob.LastWatchdog {
		t.Errorf("%+v", d)
	}
}

// TestForwardingIsLossy checks that a plan warns what an existing interface loses when it starts forwarding. A future
// interface loses nothing.
func TestForwardingIsLossy(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]knob.Class{
		"net.ipv6.conf.eth0.forwarding": knob.Lossy, "net/ipv6/conf/eth1.7/forwarding": knob.Lossy,
		"net.ipv6.conf.default.forwarding": knob.Exact, "net.ipv4.conf.eth0.forwarding": knob.Exact,
	} {
		k, known := knob.Lookup(knob.Prefix + key)
		if !known || k.Class != want || (k.Trap != "") != (want == knob.Lossy) {
			t.Errorf("%s: %t, %s, %q, want %s", key, known, k.Class, k.Trap, want)
		}
	}
}

// TestFormsOfSysctls checks that a sysctl's current value determines whether it accepts whole numbers, and how many.
// Sysctls whose names indicate text, lists or masks still accept those.
func TestFormsOfSysctls(t *testing.T) {
	tree := sysctls(map[string]string{
		"vm/swappiness": "60", "kernel/printk": "4\t4\t1\t7", "kernel/core_pattern": "1", "kernel/hostname": "7",
		"net/ipv4/tcp_congestion_control": "cubic", "net/ipv4/ip_local_reserved_ports": "80", "kernel/watchdog_cpumask": "0",
		"vm/percpu_pagelist_high_fraction": "0", "net/ipv4/icmp_ratemask": "6168", "kernel/ftrace_dump_on_oops": "0",
		"net/ipv4/tcp_rmem": "4096\t131072\t6291456",
	})
	for _, tt := range []struct{ key, value, why string }{
		{"vm.swappiness", "abc", `"abc"; allowed: a whole number, as the 60 of this kernel`},
		{"vm.swappiness", "10%", "allowed: a whole number"},
		{"vm.swappiness", "10 20", "allowed: a whole number"},
		{"vm.swappiness", "-1", ""},
		{"vm.swappiness", "0x10", "allowed: a whole number"}, // reads back as 16
		{"vm.swappiness", "010", "allowed: a whole number"},  // is 8
		{"kernel.printk", "3 4 1 7", ""},
		{"kernel.printk", "3", "allowed: 4 whole numbers, as the 4 4 1 7 of this kernel"},
		{"net.ipv4.tcp_rmem", "4096 many 6291456", "allowed: 3 whole numbers"},
		{"kernel.core_pattern", "core.%p", ""},
		{"kernel.hostname", "db", ""},
		{"net.ipv4.tcp_congestion_control", "bbr", ""},
		{"net.ipv4.ip_local_reserved_ports", "80,8080-8090", ""},
		{"kernel.watchdog_cpumask", "0-3", ""},
		{"vm.percpu_pagelist_high_fraction", "abc", "allowed: a whole number"}, // no list, despite its name
		{"net.ipv4.icmp_ratemask", "abc", "allowed: a whole number"},
		{"kernel.ftrace_dump_on_oops", "orig_cpu", ""}, // text since Linux 6.9
	} {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			k, known := knob.Lookup(knob.Prefix + tt.key)
			value, err := k.Parse(tt.value)
			if err != nil || !known {
				t.Fatal(known, err)
			}
			bound := profile.Bound{Name: "test", Settings: []profile.Setting{{Knob: k, Value: value}}}
			d := tune.Make(bound, tune.Host{Survey: knob.Open(tree).Survey([]string{k.Name})}, nil).Divide()
			switch {
			case tt.why == "" && len(d.Write) != 1:
				t.Errorf("%+v", d)
			case tt.why != "" && (len(d.Blocked) != 1 || !strings.Contains(d.Blocked[0].Why, tt.why) || d.Blocked[0].Support != knob.Absent):
				t.Errorf("%+v", d)
			}
		})
	}
}
