// Command berth-scheduler is kube-scheduler with one additional plugin, Berth. For each pod that asks for exclusive
// CPUs the plugin chooses the node whose cores suit the pod best, together with its CPUs and memory nodes. Everything
// else is kube-scheduler's own, including its flags and its configuration file. The plugin is active in the profiles
// that enable it in this file.
package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// version is set by the Makefile through -ldflags.
var version = "dev"

// about extends kube-scheduler's help.
const about = `

berth-scheduler is kube-scheduler with the plugin Berth. For pods annotated
cpuset-scheduler: "true" it chooses the CPUs and memory nodes of each container
together with the node, and writes them into the annotation berth.dev/placement
in the same call that binds the pod. Enable it with --config: in a profile's
plugins it belongs into multiPoint and, before DefaultBinder, into bind.`

func main() {
	// SetDynamicVersion fails only in a build without a Kubernetes version. Then the version stays as it is.
	_ = kubeversion.SetDynamicVersion(reported(kubeversion.Get().GitVersion, version))
	os.Exit(cli.Run(command()))
}

// command returns kube-scheduler's command under this program's name.
func command() *cobra.Command { return commandOf(new(schedule.Factory)) }

// commandOf is command with the factory of its plugins.
func commandOf(factory *schedule.Factory) *cobra.Command {
	cmd := app.NewSchedulerCommand(app.WithPlugin(schedule.Name, factory.New))
	cmd.PreRun = func(*cobra.Command, []string) {
		if flag := cmd.Flags().Lookup("config"); flag != nil {
			factory.Strategies = strategiesIn(flag.Value.String())
		}
	}
	cmd.Use = "berth-scheduler"
	cmd.Long += about
	return cmd
}

// reported returns the version for --version, the metrics and the user agent: the Kubernetes version with Berth's
// version as its build metadata.
func reported(kubernetes, berth string) string {
	base, _, _ := strings.Cut(kubernetes, "+")
	clean := func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' {
			return r
		}
		return '-'
	}
	return base + "+berth." + strings.Trim(strings.Map(clean, berth), ".-")
}
