package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/table"
)

// askTimeout bounds one request to an API server.
const askTimeout = 30 * time.Second

var (
	errNoPodName = errors.New("pod name: missing: allowed: pod/NAME")
	errNoCluster = errors.New("no cluster is configured: allowed: --kubeconfig FILE, or the variable KUBECONFIG")
)

// kubeFlags select the cluster.
type kubeFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

// register adds the flags of a command that can be about a pod.
func (k *kubeFlags) register(cmd *cobra.Command) {
	k.add(cmd, "for a pod: ")
	cmd.Flags().StringVarP(&k.namespace, "namespace", "n", "", "for a pod: its namespace (default: that of the context)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions) // fails only for an unknown flag
}

// registerCluster adds the flags of a command that always asks a cluster.
func (k *kubeFlags) registerCluster(cmd *cobra.Command) { k.add(cmd, "") }

func (k *kubeFlags) add(cmd *cobra.Command, when string) {
	fs := cmd.Flags()
	fs.StringVar(&k.kubeconfig, "kubeconfig", "", when+"how to reach the cluster, a `FILE` (default: $KUBECONFIG, else ~/.kube/config)")
	fs.StringVar(&k.context, "context", "", when+"the context in that file")
	_ = cmd.RegisterFlagCompletionFunc("context", cobra.NoFileCompletions) // fails only for an unknown flag
}

// chosen reports whether the user selected a cluster.
func (*kubeFlags) chosen(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("kubeconfig") || cmd.Flags().Changed("context")
}

// nodeAtMost accepts at most one argument, the name of a node.
func nodeAtMost(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError(fmt.Errorf("%q: allowed: the name of one node", args))
	}
	if len(args) == 0 {
		return nil
	}
	if wrong := validation.IsDNS1123Subdomain(args[0]); len(wrong) > 0 {
		return usageError(fmt.Errorf("node name %q: allowed: a name: %s", args[0], wrong[0]))
	}
	return nil
}

// podArgument returns the NAME of "pod/NAME" or "pod NAME".
func podArgument(args []string) (string, bool) {
	kind, name, slash := strings.Cut(args[0], "/")
	if len(args) > 1 {
		name = args[1]
	}
	return name, isPodKind(kind) && (slash || len(args) > 1)
}

func isPodKind(word string) bool { return word == "pod" || word == "pods" || word == "po" }

// explainPod asks the cluster about one pod.
func (k *kubeFlags) explainPod(cmd *cobra.Command, g *globals, name string) error {
	format, err := g.format("table", "json", "yaml")
	if err != nil {
		return err
	}
	if err := k.check(name); err != nil {
		return err
	}
	x, err := k.ask(cmd, name)
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), format, x, func(w io.Writer) error {
		return writeText(w, podText(x))
	})
}

// check validates the names before the cluster is asked.
func (k *kubeFlags) check(name string) error {
	if name == "" {
		return usageError(errNoPodName)
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return usageError(fmt.Errorf("pod name %q: allowed: a name: %s", name, wrong[0]))
	}
	if wrong := validation.IsDNS1123Label(k.namespace); k.namespace != "" && len(wrong) > 0 {
		return usageError(fmt.Errorf("--namespace %q: allowed: a name: %s", k.namespace, wrong[0]))
	}
	return nil
}

// noCluster returns an error with the places of a cluster configuration.
func noCluster(rules *clientcmd.ClientConfigLoadingRules) error {
	var places []string
	for _, file := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			file += " (no such file)"
		}
		places = append(places, file)
	}
	return usageError(fmt.Errorf("%s: %w", strings.Join(places, ", "), errNoCluster))
}

// config returns how to reach the cluster, and the selected namespace.
func (k *kubeFlags) config() (cfg *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.context})
	cfg, err = loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", noCluster(rules)
	}
	if name := notKubeconfig(rules); err != nil && name != "" {
		return nil, "", usageError(fmt.Errorf("--kubeconfig %q, or KUBECONFIG: %w", name, errNoKubeconfig))
	}
	if err != nil {
		return nil, "", usageError(fmt.Errorf("--kubeconfig %q, --context %q: allowed: those of a cluster: %w", k.kubeconfig, k.context, err))
	}
	if namespace = k.namespace; namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", usageError(fmt.Errorf("--context %q: %w", k.context, err))
		}
	}
	cfg.Timeout = askTimeout
	return cfg, namespace, nil
}

var errNoKubeconfig = errors.New("allowed: a YAML file of kind Config, as kubectl config view prints it")

// notKubeconfig returns the first file that is not an object, "" for none. For such files the loader's error only lists
// mismatched Go types.
func notKubeconfig(rules *clientcmd.ClientConfigLoadingRules) string {
	for _, name := range rules.GetLoadingPrecedence() {
		text, err := os.ReadFile(name)
		if err != nil { // the loader reports it
			continue
		}
		var object map[string]any
		if yaml.Unmarshal(text, &object) != nil {
			return name
		}
	}
	return ""
}

// observe reads the cluster and returns the selected namespace.
func (k *kubeFlags) observe(ctx context.Context) (objects simulate.Objects, namespace string, err error) {
	cfg, namespace, err := k.config()
	if err != nil {
		return objects, "", err
	}
	objects, err = simulate.Observe(ctx, cfg)
	return objects, namespace, err
}

func (k *kubeFlags) ask(cmd *cobra.Command, name string) (simulate.Explanation, error) {
	objects, namespace, err := k.observe(cmd.Context())
	if err != nil {
		return simulate.Explanation{}, err
	}
	cluster := simulate.New(objects)
	x, found := cluster.Explain(namespace, name)
	if !found {
		return x, usageError(fmt.Errorf("pod %q is not in namespace %q, or complete: allowed: %s", name, namespace, someOf(cluster.PodNames(namespace))))
	}
	return x, nil
}

// someOf lists at most some names for a message.
func someOf(names []string) string {
	const some = 10
	switch {
	case len(names) == 0:
		return "none, it has no pods"
	case len(names) > some:
		return fmt.Sprintf("%s, … (%d)", joined(names[:some]), len(names))
	default:
		return joined(names)
	}
}

// podText formats the explanation of a pod in sentences, one fact per line.
func podText(x simulate.Explanation) string {
	var b table.Page
	b.Line("%s/%s %s", x.Namespace, x.Pod, stateText(x))
	line := func(title, format string, args ...any) {
		b.Line("  %-9s %s", title, fmt.Sprintf(format, args...))
	}
	if !x.Pinned {
		line("asks", "for no exclusive CPUs: it runs in the shared pool")
	}
	for _, c := range x.Containers {
		line("container", "%s: CPUs %s, memory of %s, %s%s", c.Name, c.CPUs, nodesText(c.Mems), c.Policy, domainText(c.Domain))
	}
	if !x.LeftEmpty.IsEmpty() {
		line("empty", "CPUs %s: siblings that no other pod gets", x.LeftEmpty)
	}
	for _, why := range x.Why {
		line("why", "%s", why.Text)
	}
	if x.Better != "" {
		line("now", "a new pod would get CPUs %s; running pods are not moved", x.Better)
	}
	if x.Condition != "" {
		line("scheduler", "%s", x.Condition)
	}
	printNodeReasons(&b, x.Nodes)
	if x.Repack != nil {
		printRepack(&b, "  ", x.Repack)
	}
	for _, warning := range x.Warnings {
		line("warning", "%s", warning)
	}
	for _, note := range x.Notes {
		line("note", "%s", note)
	}
	for _, gap := range x.NotSimulated {
		line("not seen", "%s: %s", gap.What, gap.Effect)
	}
	return b.String()
}

// nodesText names NUMA nodes by their list.
func nodesText(list string) string {
	if strings.ContainsAny(list, ",-") {
		return "NUMA nodes " + list
	}
	return "NUMA node " + list
}

func domainText(domain string) string {
	if domain == "" {
		return ""
	}
	return " in " + domain
}

func stateText(x simulate.Explanation) string {
	switch x.State {
	case simulate.Bound:
		return "is on node " + x.Node
	case simulate.Placeable:
		if !simulate.IsBerth(x.Scheduler) {
			return fmt.Sprintf("has no node yet; berth-scheduler would put it on %s now, but it asks for the scheduler %s", x.Node, x.Scheduler)
		}
		return fmt.Sprintf("has no node yet; %s would take it now (scheduler: %s)", x.Node, x.Scheduler)
	default:
		return "is pending: " + x.Reason
	}
}
