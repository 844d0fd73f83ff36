// Command berth-scheduler is kube-scheduler with one more plugin, Berth, which
// places pods that ask for exclusive CPUs: on the node whose cores suit them
// best, and on which CPUs and memory nodes there. Everything else, its flags
// and its configuration file included, is kube-scheduler's own; a profile has
// the plugin where the file enables it.
package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-project/berth/internal/schedule"
)

// version is set by the Makefile through -ldflags.
var version = "dev"

// about is what the help says beyond kube-scheduler's own.
const about = `

berth-scheduler is kube-scheduler with the plugin Berth. For pods annotated
cpuset-scheduler: "true" it chooses the CPUs and memory nodes of each container
together with the node, and writes them into the annotation berth.dev/placement
in the same call that binds the pod. Enable it with --config: in a profile's
plugins it belongs into multiPoint and, before DefaultBinder, into bind.`

func main() {
	// Only a build without the version of Kubernetes can fail here, and then the
	// version it has stays.
	_ = kubeversion.SetDynamicVersion(reported(kubeversion.Get().GitVersion, version))
	os.Exit(cli.Run(command()))
}

// command is kube-scheduler's command under this program's name.
func command() *cobra.Command {
	factory := new(schedule.Factory)
	cmd := app.NewSchedulerCommand(app.WithPlugin(schedule.Name, factory.New))
	cmd.Use = "berth-scheduler"
	cmd.Long += about
	return cmd
}

// reported is the version that --version, the metrics and the user agent
// carry: that of Kubernetes, with Berth's as its build metadata.
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
