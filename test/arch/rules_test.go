package arch

import "regexp"

// house describes this module: its layers, and the imports that only some packages may have. The document is
// ARCHITECTURE.md, whose table of rooms says which rooms are pure, and which reach the host.
func house(document string) rules {
	return rules{
		module:   "github.com/berth-project/berth",
		maxLines: 500,
		harness:  []string{"test/chance", "test/child", "test/crash", "test/disk", "test/flags", "test/kernel", "test/large", "test/loader", "test/newcomer", "test/patience", "test/plain", "test/recorded", "test/stage", "test/tree"},
		modules:  []string{"cmd/berth-scheduler", "test/cluster", "test/cluster/runtime", "test/chart", "test/monitoring", "test/web", "tools/dist", "tools/image"},
		banned:   []string{"util", "common", "helper", "helpers", "manager", "framework", "impl", "types"},
		layering: layers(),
		guards: []guard{
			{
				path: "github.com/berth-project/berth/internal/engine/hostwrite",
				only: []string{"internal/engine/driver/boot", "internal/engine/driver/cgroupfile", "internal/engine/driver/cookie", "internal/engine/driver/hostfile", "internal/engine/driver/irq", "internal/engine/driver/thread", "internal/proof/scratch"},
				why:  "one writer: a host file changes through a driver that apply calls, which journals first; scratch only touches groups it made",
			},
			{
				path: "github.com/berth-project/berth/internal/engine/apply",
				only: []string{"internal/agent", "internal/cli", "internal/engine/driver", "internal/engine/driver/boot", "internal/engine/driver/cgroupfile", "internal/engine/driver/cookie", "internal/engine/driver/hostfile", "internal/engine/driver/irq", "internal/engine/driver/irqbalance", "internal/engine/driver/systemd", "internal/engine/driver/thread", "internal/engine/reconcile", "internal/capability/tune/tuner"},
				why:  "one reconciler: it applies what is desired, and beside it only commands do, and what they apply host profiles with; the agent makes the applier that it works with, and drivers are what that calls",
			},
			{
				path: "github.com/berth-project/berth/internal/capability/place", exact: true,
				only: []string{"internal/capability/place/assignment", "internal/capability/place/hardware", "internal/capability/isolate/offline", "internal/capability/place/pin"},
				why:  "those who observe decide nothing about CPUs: the inventory records its changes, and assignment passes them to place",
			},
			{
				path: "github.com/berth-project/berth/internal/node/inventory",
				only: []string{"internal/agent", "internal/capability/place/assignment", "internal/capability/place/pin", "internal/node/statedir"},
				why:  "the inventory is the agent's: rooms that decide get the values of package observed",
			},
			{
				path: "github.com/berth-project/berth/internal/agent", exact: true,
				only: []string{"internal/cli", "internal/agent/metrics"},
				why:  "the agent is a program's: the scheduler, the benchmarks and the doctor know its views at most",
			},
			{
				path: "github.com/berth-project/berth/internal/proof/scratch",
				only: []string{"internal/proof/bench", "internal/proof/demo", "internal/proof/seeds"},
				why:  "the agent and the commands make no groups",
			},
			{
				path: "github.com/berth-project/berth/internal/linux/program",
				only: []string{"internal/cli"},
				why:  "what processes of others run is read by a command that a user gave, in a process of its own: the agent reads none of it",
			},
			{
				path: "golang.org/x/sys/unix",
				only: []string{"internal/linux/coresched", "internal/linux/hostfs", "internal/engine/hostwrite", "internal/engine/journal", "internal/linux/kernel", "internal/linux/pages", "internal/linux/process", "internal/proof/scratch"},
				why:  "system calls stay at the bottom",
			},
			{
				path: "os/exec",
				only: []string{"internal/proof/bench", "internal/linux/process", "internal/capability/tune/switchback"},
				why:  "Berth starts no program, except its own workloads in demo and bench, what measures the scheduler, and the command that berth tune bench is given",
			},
			{
				path: "github.com/berth-project/berth/internal/linux/process",
				only: []string{"internal/proof/bench", "internal/cli", "internal/engine/driver/boot", "internal/capability/tune/switchback", "internal/capability/tune/tuner"},
				why:  "as os/exec; the boot arguments of Debian's GRUB need its update-grub; what keeps the deadline of a host profile is a detached process of Berth itself, and berth run becomes the user's command",
			},
			{
				path: "k8s.io/apimachinery",
				only: []string{"api/v1alpha1", "internal/node/apiclient", "internal/cli", "internal/node/cluster", "internal/cli/fleet", "internal/node/kubelet", "internal/intent/kubepod", "internal/scheduler/relocation", "internal/cli/restoration", "internal/scheduler/schedule", "internal/scheduler/simulate", "internal/intent/strategy", "internal/capability/tune", "internal/intent/workload"},
				why:  "Kubernetes types end at the wire format, and where it becomes a plain value",
			},
			{
				path: "k8s.io/client-go",
				only: []string{"internal/node/apiclient", "internal/cli", "internal/node/cluster", "internal/cli/fleet", "internal/scheduler/relocation", "internal/cli/restoration", "internal/scheduler/schedule", "internal/scheduler/simulate"},
				why:  "who talks to an API server is known by name",
			},
			{
				path: "k8s.io/client-go/kubernetes",
				why:  "the clientset knows all kinds, which costs the agent 10 MB of program and 5 MB of memory; internal/node/apiclient knows those that are used",
			},
			{
				path: "k8s.io/client-go/gentype",
				why:  "it links the fakes of tests, which costs the agent 1 MB of program and 2 MB of memory",
			},
			{
				path: "k8s.io/streaming",
				only: []string{"internal/cli/fleet"},
				why:  "one room goes through the API server to a port of a pod",
			},
			{
				path: "k8s.io/client-go/tools/portforward",
				only: []string{"internal/cli/fleet"},
				why:  "as k8s.io/streaming",
			},
			{
				path: "k8s.io/kube-scheduler",
				only: []string{"internal/scheduler/schedule"},
				why:  "the scheduler's framework is one room's business",
			},
			{
				path: "github.com/containerd/nri",
				only: []string{"internal/node/nri"},
				why:  "the interface of plugins ends where it becomes a plain value",
			},
			{
				path: "k8s.io/cri-api",
				only: []string{"internal/node/cri"},
				why:  "the runtime's interface ends where it becomes a plain value",
			},
			{
				path: "google.golang.org/grpc",
				only: []string{"internal/node/cri", "internal/node/kubelet", "internal/node/nri"},
				why:  "who talks to the container runtime or to the kubelet is known by name",
			},
			{
				path: "k8s.io/kubelet",
				only: []string{"internal/node/kubelet"},
				why:  "the kubelet's interface ends where it becomes a plain value",
			},
			{
				path: "k8s.io/kubernetes",
				why:  "Kubernetes itself stays in the modules cmd/berth-scheduler and test/cluster",
			},
			{
				path: "sigs.k8s.io/yaml",
				only: []string{"internal/proof/bench", "internal/cli", "internal/node/kubelet", "internal/intent/manifest"},
				why:  "YAML is read and printed at the edges",
			},
			{
				path: "github.com/spf13/cobra",
				only: []string{"internal/cli"},
				why:  "the command line is one package",
			},
			{
				path: "charm.land",
				only: []string{"internal/cli/top"},
				why:  "the screen of a terminal is one room's business",
			},
			{
				path: "github.com/prometheus/client_golang",
				only: []string{"internal/agent/metrics", "internal/scheduler/schedule", "internal/agent/window"},
				why:  "the agent serves metrics, and the plugin adds to those of kube-scheduler",
			},
			{
				path: "github.com/prometheus/prometheus",
				only: []string{"internal/agent/query"},
				why:  "the language of queries is one room's business",
			},
			{
				path: "net/http",
				only: []string{"internal/proof/bench", "internal/proof/demo", "internal/cli/fleet", "internal/node/kubelet", "internal/proof/load", "internal/agent/query", "internal/agent/web", "internal/agent/window"},
				why:  "the agent serves through window only, and what it shows is web's, and query's; the load generator asks, the kubelet is asked, and fleet passes a user on to an agent",
			},
			{
				path: "github.com/coreos/go-systemd/v22",
				only: []string{"internal/proof/demo", "internal/engine/driver/systemd", "internal/agent/service", "internal/capability/tune/tuner"},
				why:  "the demo asks systemd for one transient unit, tuner for the service that keeps a deadline, driver/systemd for the values of units, service for the agent's own unit; no other room asks it for anything",
			},
			{
				path: "github.com/berth-project/berth/internal/linux/pages",
				only: []string{"internal/proof/bench", "internal/engine/driver/cgroupfile", "internal/capability/localize/mover", "internal/capability/localize/narrowing"},
				why:  "pages move through the mover, which paces the calls; the measurement has a bare loop beside it, narrowing only looks, and what writes memory nodes only asks whether the write may end, and the processes whether they answer",
			},
			{
				path: "unsafe",
				only: []string{"internal/linux/coresched", "internal/linux/kernel", "internal/linux/pages"},
				why:  "move_pages and get_mempolicy have no wrapper, prctl writes a cookie to an address, and the positions in the memory of perf are read atomically; no other package needs it",
			},
			{
				path: "github.com/berth-project/berth/internal/linux/coresched",
				only: []string{"internal/capability/isolate/cookies", "internal/engine/driver/cookie"},
				why:  "cookies looks at them and holds the one that it desires; only the driver gives it to threads of others",
			},
			{path: "testing", why: "test code does not ship"},
			{path: "math/rand", exact: true, why: "math/rand/v2 exists"},
		},
		pure: pureRule{
			rooms:   marked(document, "pure"),
			imports: []string{"os", "log", "sync", "context", "syscall", "math/rand/v2", "github.com/berth-project/berth/internal/linux/hostfs", "github.com/berth-project/berth/internal/linux/kernel"},
			why:     "a pure package reads no host, clock or environment and starts nothing",
		},
		clock: clockRule{
			calls: []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker"},
			only: map[string]string{
				"internal/agent":                         "its loop sleeps, and the runtime waits for its answers",
				"internal/node/apiclient":                "pauses between requests",
				"internal/engine/apply":                  "the clock that it has unless it is given one",
				"internal/proof/bench":                   "it measures",
				"internal/cli":                           "it hands the clock to the rooms below",
				"internal/node/cluster":                  "requests, Leases and retries",
				"internal/node/containers":               "it asks again and again, and NRI may be away for a moment",
				"internal/node/cri":                      "it asks again and again",
				"internal/engine/driver/irqbalance":      "irqbalance may not answer",
				"internal/engine/driver/systemd":         "systemd may not answer",
				"internal/cli/fleet":                     "its token ends",
				"internal/engine/journal":                "another process may hold the lock for a moment",
				"internal/node/kubelet":                  "it reads again and again",
				"internal/proof/load":                    "it measures",
				"internal/capability/localize/mover":     "it waits between calls",
				"internal/capability/localize/narrowing": "between two looks at processes it rests, so that it takes a quarter of one CPU",
				"internal/linux/pages":                   "it gives up on a process that does not answer",
				"internal/node/nri":                      "the runtime's time limit, and how long the connection is lost",
				"internal/agent/query":                   "a query without a time is one of now, and an answer has its turn",
				"internal/scheduler/schedule":            "Leases, and how long a request may be under way",
				"internal/proof/scratch":                 "the kernel removes groups in its own time",
				"internal/engine/driver/cgroupfile":      "the kernel releases removed groups in its own time",
				"internal/capability/tune/tuner":         "it waits for the deadline of a host profile",
				"internal/agent/web":                     "a view counts for a moment, and a viewer may not keep up",
				"internal/agent/window":                  "a busy address is tried again, and an answer counts for a moment",
				"internal/capability/tune/switchback":    "it waits before each run",
				"internal/scheduler/simulate":            "a Lease counts at the moment at which it is read",
			},
		},
		host: hostRule{
			under:  "internal/capability",
			files:  []string{"os", "io/fs", "net", "path/filepath", "syscall", "golang.org/x/sys", "internal/value/durable"},
			drives: []string{"internal/linux", "internal/engine", "internal/node"},
			values: map[string][]string{
				"os":                                {"Getpid", "Getpagesize"},
				"io/fs":                             {"ErrNotExist", "ErrPermission", "FS"},
				"internal/engine/driver/cgroupfile": {"Target"},
				"internal/engine/plan":              nil,
				"internal/linux/bootargs":           nil, // its readers need an fs.FS
				"internal/linux/cgroup":             {"Knob", "KnobCPUs", "KnobMax", "KnobMems", "ListValue", "NoQuota", "NoSlice", "SliceText"},
				"internal/linux/knob":               nil, // its readers need an fs.FS
				"internal/linux/topology":           nil, // its readers need an fs.FS
				"internal/node/cluster":             {"Pod"},
				"internal/node/inventory":           nil,
				"internal/node/nri":                 {"Change", "Create", "Event", "Reply", "Settings", "Update"},
				"internal/node/observed":            nil,
			},
			loop:   marked(document, "in the loop"),
			beside: marked(document, "beside the loop"),
		},
	}
}

// marked returns the rooms of the table of a document whose line ends with a mark.
func marked(document, mark string) []string {
	var rooms []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .*; "+mark+" \\|$").FindAllStringSubmatch(document, -1) {
		rooms = append(rooms, row[1])
	}
	return rooms
}
