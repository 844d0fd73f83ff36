package cluster

import (
	"context"
	"log/slog"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestMain disables the pause of Kubernetes' libraries between two errors. The time of the last error is a global of
// the process, and in a test with a fake clock it is decades away.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // That is what it is for.
	os.Exit(m.Run())
}

// kubeletWith is a kubelet with some pods.
type kubeletWith []v1.Pod

func (k kubeletWith) Pods(context.Context) ([]v1.Pod, error) { return k, nil }

// start runs f concurrently until the test ends.
func start(t *testing.T, f func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// failing makes requests of a client fail with the error of answer, nil for success.
func failing(client *fake.Clientset, verb, resource string, answer func() error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtimeObject, error) {
		err := answer()
		return err != nil, nil, err
	})
}

// requests counts the requests of one verb and resource.
func requests(client *fake.Clientset, verb, resource string) int {
	count := 0
	for _, action := range client.Actions() {
		if action.Matches(verb, resource) {
			count++
		}
	}
	return count
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func noOwner() *metav1.OwnerReference { return nil }

func always() bool { return true }
