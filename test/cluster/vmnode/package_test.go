package vmnode

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/test/kernel"
)

// Versions of the packages.
const (
	older = "1.0.0"
	newer = "1.1.0"
)

// ours is an agent that the administrator installed beside the package, with a unit of the package's name.
const (
	ours     = "/usr/local/bin/berth"
	oursUnit = "/etc/systemd/system/berth-agent.service"
	oursText = `[Service]
ExecStart=` + ours + ` agent --config /etc/berth/agent.yaml
[Install]
WantedBy=multi-user.target
`
)

// Scripts that print the CPUs of the service work, its process and the agent's process.
const (
	workCPUs = "sed -n 's/^Cpus_allowed_list:\t//p' /proc/$(systemctl show -P MainPID work)/status"
	workPID  = "systemctl show -P MainPID work"
	agentPID = "systemctl show -P MainPID berth-agent"
	allCPUs  = "0-3"
)

// packaged are the units of the package.
const packaged = "/usr/lib/systemd/system/berth-agent.service /usr/lib/systemd/system/berth-ahead.service /usr/lib/systemd/system/berth-tune.service"

// TestPackageOnSystemd takes the shipped .deb, with the real program, through its life on a systemd host: installation,
// upgrade and removal. A pinned service must keep its CPUs through the upgrade, and get all CPUs back by the removal. An
// agent that the administrator installed under the same name must run on. TestLifeOfPackage of tools/dist has
// substitutes for berth and systemctl; this test has none.
func TestPackageOnSystemd(t *testing.T) {
	root := sources(t)
	h := bare(t, Options{
		Name: "package", IP: "198.18.7.9", Files: debs(t, root, older, newer),
		Machine: kernel.Machine{Name: "package", Sockets: 2, Dies: 1, Cores: 1, Threads: 2, Nodes: 2, MiB: 1536},
	})
	h.write("/etc/systemd/system/work.service", work)
	h.sh(t, "systemctl enable --now work")
	h.expect(t, "in the beginning", workCPUs, allCPUs)
	t.Run("Install", h.installs)
	t.Run("Upgrade", h.upgrades)
	t.Run("Remove", h.removes)
	t.Run("OurUnit", h.oursStays)
}

// debs builds the .deb of each version as tools/dist.sh does, and returns the files.
func debs(t *testing.T, root string, versions ...string) []string {
	t.Helper()
	tools, out := t.TempDir(), t.TempDir()
	makes(t, root, nil, "go", "-C", "tools/dist", "build", "-o", tools, "./notices", "./pages", "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	var files []string
	for _, version := range versions {
		dir := filepath.Join(out, version)
		program(t, root, filepath.Join(dir, "berth-linux-amd64"), "-s -w -X main.version="+version)
		makes(t, root, nil, filepath.Join(tools, "notices"), filepath.Join(dir, "berth-THIRD_PARTY_NOTICES"), filepath.Join(dir, "berth-linux-amd64"))
		makes(t, root, nil, filepath.Join(tools, "pages"), filepath.Join(dir, "pages"), version, "0")
		manual, err := filepath.Glob(filepath.Join(dir, "pages/man/*.1"))
		if err != nil {
			t.Fatal(err)
		}
		makes(t, root, nil, append([]string{"gzip", "-9n"}, manual...)...)
		file := filepath.Join(out, filepath.Base(inGuest(version)))
		makes(t, root, []string{"ARCH=amd64", "PACKAGE_VERSION=" + version, "OUT=" + dir},
			filepath.Join(tools, "nfpm"), "package", "--config", "deploy/package/nfpm.yaml", "--packager", "deb", "--target", file)
		files = append(files, file)
	}
	return files
}

// inGuest returns the path of the .deb of a version in the guest.
func inGuest(version string) string { return "/opt/berth/files/berth-" + version + ".deb" }

// dpkg runs dpkg and returns its output.
func (h *host) dpkg(t *testing.T, arguments string) string {
	t.Helper()
	said := h.sh(t, "dpkg "+arguments+" 2>&1")
	t.Log(said)
	return said
}

// installed checks which version the host has.
func (h *host) installed(t *testing.T, version string) {
	t.Helper()
	h.expect(t, "installed", `dpkg-query -W -f '${db:Status-Abbrev}${Version}\n' berth; `+berth+" version | head -1",
		"ii "+version+"\nversion   "+version)
}

// installs installs the package, which must start nothing, and has systemd check its units. The guest has no man, so
// the test itself looks for the pages that the units name. Then the enabled agent must pin a service.
func (h *host) installs(t *testing.T) {
	h.dpkg(t, "-i "+inGuest(older))
	h.installed(t, older)
	h.expect(t, "after the installation", agent+" || true", "inactive\ndisabled")
	t.Log(h.sh(t, "systemd-analyze verify --man=no --recursive-errors=no "+packaged+" 2>&1"))
	h.expect(t, "missing pages", `for page in $(sed -n 's/^Documentation=man:\(.*\)(1)$/\1/p' `+packaged+`); do
[ -e /usr/share/man/man1/$page.1.gz ] || echo $page; done`, "")
	h.sh(t, "systemctl enable --now berth-agent")
	h.expect(t, "enabled", agent, runs)
	h.answers(t)
	h.write(files+"/work.yaml", pinned)
	h.pinned(t)
}

// pinned waits until work has one CPU, and returns it.
func (h *host) pinned(t *testing.T) string {
	t.Helper()
	h.eventually(t, "pinned", workCPUs+" | grep -c '^[0-9]$'", "1")
	return h.sh(t, workCPUs)
}

// upgrades installs the second version: another process must run its program, and the pinned service must keep its
// process and its CPU.
func (h *host) upgrades(t *testing.T) {
	first, process := h.sh(t, agentPID), h.sh(t, workPID)
	watched := h.watch(t, h.pinned(t))
	h.dpkg(t, "-i "+inGuest(newer))
	h.installed(t, newer)
	h.expect(t, "upgraded", agent, runs)
	if now := h.sh(t, agentPID); now == first || now == "0" {
		t.Errorf("the agent was process %s and is %s", first, now)
	}
	h.expect(t, "the agent's program", "readlink /proc/$("+agentPID+")/exe", berth)
	h.answers(t)
	h.eventually(t, "the new agent has it", berth+" explain work | grep -o '^work is pinned' || true", "work is pinned")
	watched()
	h.expect(t, "the process of work", workPID, process)
}

// watching is a script that records the CPUs of a process again and again.
const watching = `while :; do
while read -r name list; do [ "$name" != Cpus_allowed_list: ] || echo "$list"; done </proc/$1/status
sleep 0.05
done >/run/watched
`

// watch records the CPUs of work all the time until the caller calls end, which fails the test if they were ever others
// than list.
func (h *host) watch(t *testing.T, list string) (end func()) {
	t.Helper()
	const looks = "wc -l </run/watched"
	h.write("/run/watching", watching)
	h.sh(t, "rm -f /run/watched; systemd-run --quiet --collect --unit watch sh /run/watching $("+workPID+")")
	h.eventually(t, "it is watched", "test -s /run/watched && echo yes", "yes")
	return func() {
		t.Helper()
		before := h.sh(t, looks)
		h.eventually(t, "it is still watched", "[ $("+looks+") -gt "+before+" ] && echo yes", "yes")
		t.Logf("%s looks", h.sh(t, "systemctl stop watch && "+looks))
		h.expect(t, "broken law: work lost its CPUs", "sort -u /run/watched", list)
	}
}

// removes removes the package: the service has all CPUs again, and only the user's files and a journal without entries
// are left. The administrator's copy of the program reads the journal.
func (h *host) removes(t *testing.T) {
	h.sh(t, "install -m 0755 "+berth+" "+ours)
	h.dpkg(t, "-r berth")
	h.expect(t, "removed", workCPUs, allCPUs)
	h.sh(t, "systemctl daemon-reload")
	h.expect(t, "after a daemon-reload", workCPUs, allCPUs)
	h.expect(t, "units", "for unit in agent ahead tune; do systemctl show -P LoadState berth-$unit; done; systemctl is-active berth-agent || true",
		"not-found\nnot-found\nnot-found\ninactive")
	h.expect(t, "files of the package", `find /etc/systemd /usr/lib/systemd -name 'berth-agent*' -o -name 'berth-ahead*' -o -name 'berth-tune*'
ls /usr/bin/berth /usr/bin/kubectl-berth 2>/dev/null || true`, "")
	h.expect(t, "the user's files", "ls /etc/berth/agent.yaml "+files, "/etc/berth/agent.yaml\n\n"+files+":\nwork.yaml")
	h.expect(t, "the journal", ours+" rollback --dry-run", "nothing to put back")
	t.Log(h.sh(t, "find /var/lib/berth"))
}

// oursStays installs, upgrades and removes the package beside an agent of the administrator, whose unit has the same
// name. That agent must stay the same process, and its service must keep its CPU.
func (h *host) oursStays(t *testing.T) {
	h.sh(t, "systemctl restart work") // a group with processes keeps an explicit list of all CPUs
	h.write(oursUnit, oursText)
	h.sh(t, "systemctl daemon-reload && systemctl enable --now berth-agent")
	watched := h.watch(t, h.pinned(t))
	first := h.sh(t, agentPID)
	h.dpkg(t, "-i "+inGuest(older))
	h.dpkg(t, "-i "+inGuest(newer))
	h.installed(t, newer)
	if said := h.dpkg(t, "-r berth"); !strings.Contains(said, oursUnit+" does not start "+berth+"; the unit is left as it is") {
		t.Error("the removal does not name the unit")
	}
	watched()
	h.expect(t, "the administrator's agent", agent, runs)
	h.expect(t, "its process", agentPID, first)
	h.expect(t, "its file", "systemctl show -P FragmentPath berth-agent", oursUnit)
	h.sh(t, "systemctl disable --now berth-agent && "+ours+" rollback")
	h.expect(t, "rolled back", workCPUs, allCPUs)
}
