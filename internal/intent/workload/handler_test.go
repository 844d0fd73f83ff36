package workload

import "testing"

func TestStartsVM(t *testing.T) {
	for name, want := range map[string]bool{
		"":                           false,
		"-":                          false,
		"runc":                       false,
		"nvidia":                     false,
		"gvisor":                     false,
		"kata":                       true,
		"kata-qemu":                  true,
		"kata-clh":                   true,
		"kata-fc":                    true,
		"Kata":                       true,
		"prod-kata":                  true,
		"confidential-kata-snp":      true,
		"io.containerd.kata.v2":      true,
		"io.containerd.kata-qemu.v2": true,
		"katacontainers":             true,
		"kata3":                      true,
		"katafc":                     true,
		"my-kataclh-v2":              true,
		"katana":                     true, // not distinguished
		"makata":                     false,
		"runv":                       true,
		"runV":                       true,
		"io.containerd.runv.v2":      true,
		"runvm":                      false,
		"my-runvx":                   false,
		"firecracker":                true,
		"aws-firecracker":            true,
		"firecrackers":               false,
		"cloud-hypervisor":           true,
		"cloud-hypervisor-large":     true,
		"cloud":                      false,
		"hypervisor":                 false,
		"no-hypervisor":              false,
		"hypervisor-cloud":           false,
		"qemu":                       true,
		"qemu-microvm":               true,
		"my-qemu":                    true,
		"confidential-qemu-tdx":      true,
		"my-qemu-notes":              true, // not distinguished
		"qemulator":                  false,
		"peerpod":                    true,
		"peerpods":                   true,
		"my_kata_class":              true,
		"speerpods":                  false,
	} {
		if got := StartsVM(name); got != want {
			t.Errorf("StartsVM(%q) = %v, want %v", name, got, want)
		}
	}
}
