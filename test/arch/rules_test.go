package arch

// house is the shape of this module: every package with its level, and the
// imports that only some packages may have. An arrow points down: a package
// imports packages of a lower level, and of its own level only those listed.
func house() rules {
	return rules{
		module:   "github.com/berth-project/berth",
		maxLines: 500,
		harness:  []string{"test/kernel", "test/newcomer", "test/patience", "test/stage"},
		modules:  []string{"cmd/berth-scheduler", "test/cluster", "test/cluster/runtime"},
		banned:   []string{"util", "common", "helper", "helpers", "manager", "framework", "impl", "types"},
		rooms: map[string]room{
			"cmd/berth": {level: 7},

			"internal/cli":   {level: 6, beside: []string{"internal/agent"}},
			"internal/agent": {level: 6},

			"internal/bench":     {level: 5},
			"internal/demo":      {level: 5, beside: []string{"internal/bench"}},
			"internal/groups":    {level: 5},
			"internal/hardware":  {level: 5},
			"internal/inventory": {level: 5},
			"internal/mover":     {level: 5},
			"internal/localize":  {level: 5, beside: []string{"internal/mover"}},
			"internal/pin":       {level: 5, beside: []string{"internal/hardware", "internal/inventory", "internal/reconcile"}},
			"internal/quota":     {level: 5, beside: []string{"internal/reconcile"}},
			"internal/reconcile": {level: 5},
			"internal/schedule":  {level: 5},
			"internal/simulate":  {level: 5},
			"internal/statedir":  {level: 5, beside: []string{"internal/inventory"}},

			"internal/burst":             {level: 4},
			"internal/cluster":           {level: 4, beside: []string{"internal/strategy"}},
			"internal/containers":        {level: 4},
			"internal/driver":            {level: 4, beside: []string{"internal/driver/cgroupfile", "internal/driver/hostfile"}},
			"internal/driver/cgroupfile": {level: 4},
			"internal/driver/hostfile":   {level: 4},
			"internal/load":              {level: 4},
			"internal/locality":          {level: 4},
			"internal/place":             {level: 4, beside: []string{"internal/driver/cgroupfile", "internal/placement"}},
			"internal/placement":         {level: 4},
			"internal/rival":             {level: 4},
			"internal/strategy":          {level: 4},

			"internal/alloc":      {level: 3},
			"internal/apiclient":  {level: 3},
			"internal/cri":        {level: 3},
			"internal/kubelet":    {level: 3},
			"internal/nri":        {level: 3},
			"internal/apply":      {level: 3, beside: []string{"internal/journal", "internal/plan"}},
			"internal/journal":    {level: 3, beside: []string{"internal/plan"}},
			"internal/kubepod":    {level: 3},
			"internal/manifest":   {level: 3},
			"internal/plan":       {level: 3},
			"internal/scratch":    {level: 3},
			"internal/window":     {level: 3},
			"internal/capability": {level: 3, beside: []string{"internal/plan"}},
			"internal/self":       {level: 3},

			"internal/cgroup":   {level: 2},
			"internal/topology": {level: 2},
			"internal/workload": {level: 2},

			"internal/hostfs":    {level: 1},
			"internal/hostwrite": {level: 1, beside: []string{"internal/hostfs"}},
			"internal/kernel":    {level: 1, beside: []string{"internal/hostfs"}},
			"internal/pages":     {level: 1, beside: []string{"internal/hostfs"}},

			"api/v1alpha1":     {level: 0},
			"deploy":           {level: 0},
			"internal/cpuset":  {level: 0},
			"internal/process": {level: 0},
			"internal/table":   {level: 0},
			"internal/unit":    {level: 0},
		},
		guards: []guard{
			{
				path: "github.com/berth-project/berth/internal/hostwrite",
				only: []string{"internal/driver/cgroupfile", "internal/driver/hostfile", "internal/scratch"},
				why:  "one writer: a host file changes through a driver that apply calls, which journals first; scratch only touches groups it made",
			},
			{
				path: "github.com/berth-project/berth/internal/apply",
				only: []string{"internal/agent", "internal/cli", "internal/driver", "internal/driver/cgroupfile", "internal/driver/hostfile", "internal/reconcile"},
				why:  "one reconciler: it applies what is desired, and beside it only commands do; the agent makes the applier that it works with, and drivers are what that calls",
			},
			{
				path: "github.com/berth-project/berth/internal/scratch",
				only: []string{"internal/bench", "internal/demo"},
				why:  "the agent and the commands make no groups",
			},
			{
				path: "golang.org/x/sys/unix",
				only: []string{"internal/hostfs", "internal/hostwrite", "internal/journal", "internal/kernel", "internal/pages", "internal/scratch"},
				why:  "system calls stay at the bottom",
			},
			{
				path: "os/exec",
				only: []string{"internal/bench", "internal/process"},
				why:  "Berth starts no program, except its own workloads in demo and bench, and what measures the scheduler",
			},
			{
				path: "github.com/berth-project/berth/internal/process",
				only: []string{"internal/bench"},
				why:  "as os/exec",
			},
			{
				path: "k8s.io/apimachinery",
				only: []string{"api/v1alpha1", "internal/apiclient", "internal/cli", "internal/cluster", "internal/kubepod", "internal/schedule", "internal/simulate", "internal/strategy", "internal/workload"},
				why:  "Kubernetes types end at the wire format, and where it becomes a plain value",
			},
			{
				path: "k8s.io/client-go",
				only: []string{"internal/apiclient", "internal/cli", "internal/cluster", "internal/schedule", "internal/simulate"},
				why:  "who talks to an API server is known by name",
			},
			{
				path: "k8s.io/kube-scheduler",
				only: []string{"internal/schedule"},
				why:  "the scheduler's framework is one room's business",
			},
			{
				path: "github.com/containerd/nri",
				only: []string{"internal/nri"},
				why:  "the interface of plugins ends where it becomes a plain value",
			},
			{
				path: "k8s.io/cri-api",
				only: []string{"internal/cri"},
				why:  "the runtime's interface ends where it becomes a plain value",
			},
			{
				path: "google.golang.org/grpc",
				only: []string{"internal/cri", "internal/nri"},
				why:  "who talks to the container runtime is known by name",
			},
			{
				path: "k8s.io/kubernetes",
				why:  "Kubernetes itself stays in the modules cmd/berth-scheduler and test/cluster",
			},
			{
				path: "sigs.k8s.io/yaml",
				only: []string{"internal/bench", "internal/cli", "internal/kubelet", "internal/manifest"},
				why:  "YAML is read and printed at the edges",
			},
			{
				path: "github.com/spf13/cobra",
				only: []string{"internal/cli"},
				why:  "the command line is one package",
			},
			{
				path: "github.com/prometheus/client_golang",
				only: []string{"internal/agent", "internal/schedule", "internal/window"},
				why:  "the agent serves metrics, and the plugin adds to those of kube-scheduler",
			},
			{
				path: "net/http",
				only: []string{"internal/bench", "internal/demo", "internal/kubelet", "internal/load", "internal/window"},
				why:  "the agent serves through window only; the load generator asks, and the kubelet is asked",
			},
			{
				path: "github.com/coreos/go-systemd/v22",
				only: []string{"internal/demo", "internal/reconcile"},
				why:  "the demo asks systemd for one transient unit, reconcile for the CPUs of units; no other room asks it for anything",
			},
			{
				path: "github.com/berth-project/berth/internal/pages",
				only: []string{"internal/bench", "internal/mover"},
				why:  "pages move through the mover, which paces the calls; the measurement has a bare loop beside it",
			},
			{
				path: "unsafe",
				only: []string{"internal/pages"},
				why:  "move_pages has no wrapper; no other package needs it",
			},
			{path: "testing", why: "test code does not ship"},
			{path: "math/rand", exact: true, why: "math/rand/v2 exists"},
		},
		pure: pureRule{
			rooms:   []string{"api/v1alpha1", "internal/alloc", "internal/burst", "internal/capability", "internal/cpuset", "internal/inventory", "internal/kubepod", "internal/locality", "internal/place", "internal/placement", "internal/plan", "internal/rival", "internal/strategy", "internal/table", "internal/topology", "internal/unit", "internal/workload"},
			imports: []string{"os", "log", "sync", "context", "syscall", "math/rand/v2", "github.com/berth-project/berth/internal/hostfs", "github.com/berth-project/berth/internal/kernel"},
			why:     "a pure package reads no host, clock or environment and starts nothing",
		},
		clock: clockRule{
			calls: []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker"},
			only: map[string]string{
				"internal/agent":      "its loop sleeps, and the runtime waits for its answers",
				"internal/apiclient":  "pauses between requests",
				"internal/apply":      "the clock that it has unless it is given one",
				"internal/bench":      "it measures",
				"internal/cli":        "it hands the clock to the rooms below",
				"internal/cluster":    "requests, Leases and retries",
				"internal/containers": "it asks again and again, and NRI may be away for a moment",
				"internal/cri":        "it asks again and again",
				"internal/journal":    "another process may hold the lock for a moment",
				"internal/kubelet":    "it reads again and again",
				"internal/load":       "it measures",
				"internal/mover":      "it waits between calls",
				"internal/nri":        "the runtime's time limit, and how long the connection is lost",
				"internal/reconcile":  "systemd may not answer",
				"internal/schedule":   "Leases, and how long a request may be under way",
				"internal/scratch":    "the kernel removes groups in its own time",
				"internal/window":     "a busy address is tried again, and an answer counts for a moment",
				"internal/simulate":   "a Lease counts at the moment at which it is read",
			},
		},
	}
}
