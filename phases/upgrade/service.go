package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// servicePatience is how long kube-proxy may take to come back, and serviceTimeout how long one answer.
const servicePatience, serviceTimeout = time.Minute, 3 * time.Second

// probeService asks the API server by the addresses of its Service: after a roll-out of kube-proxy in nftables mode,
// its map of Services was found empty.
func probeService() workflow.Phase {
	return workflow.Phase{
		Name:  "service",
		Short: "Look whether a Service answers on this machine",
		Long: `Reads the Service kubernetes in the namespace default, and asks the API server at its addresses from this
machine. Writes nothing.`,
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "would ask Service/default/kubernetes", nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			config, err := workflow.RESTConfig(r.Env, record.ClusterConf(r.Env))
			if err != nil {
				return err
			}
			config.QPS = -1 // it waits for the machine, and never for a limiter of its own
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("connect with %s: %w", record.ClusterConf(r.Env), err)
			}
			ips, last := serviceIPs(ctx, client)
			if last != nil { // which says nothing of kube-proxy
				return &finding.Error{
					Code: finding.ExitNotInTime, Err: last, Hint: "run the same command again: it checks once more",
				}
			}
			last = errors.New("it was not asked yet")
			waiting := r.Waiting("the API server by its Service", servicePatience)
			err = wait.PollUntilContextTimeout(ctx, time.Second, servicePatience, true, func(ctx context.Context) (bool, error) {
				if why := askService(r.Env, ips, config); ctx.Err() == nil {
					last = why
				}
				if last != nil {
					waiting.Still(nil) // the reason is long, and part of the error
				}
				return last == nil, nil
			})
			if err == nil {
				return nil
			}
			return &finding.Error{
				Code: finding.ExitNotInTime, Err: fmt.Errorf("ask the API server by its Service, from this machine: %w", last),
				Hint: "kube-proxy may have lost its rules: " + restartProxy(ctx, client, r.Machine) +
					"; then run the same command again: it checks once more",
			}
		},
	}
}

// serviceIPs are the addresses of the API server's Service. An API server that restarts is asked again.
func serviceIPs(ctx context.Context, client kubernetes.Interface) (ips []string, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) error {
		service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil {
			ips = service.Spec.ClusterIPs
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for Service/default/kubernetes: %w", err)
	}
	return ips, nil
}

func askService(env *workflow.Env, ips []string, config *rest.Config) error {
	for _, ip := range ips {
		at := rest.CopyConfig(config)
		at.Host, at.Timeout = "https://"+net.JoinHostPort(ip, "443"), serviceTimeout
		at.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // none knows the rules of this machine
		asker, err := discovery.NewDiscoveryClientForConfig(at)
		if err != nil {
			return err
		}
		v, err := asker.ServerVersion()
		if err != nil {
			return err
		}
		env.Sayf("Service/default/kubernetes answers at %s: %s", ip, v.GitVersion)
	}
	return nil
}

// restartProxy is the command that makes kube-proxy of this machine write its rules anew.
func restartProxy(ctx context.Context, client kubernetes.Interface, m *machine.Machine) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serviceTimeout)
	defer cancel()
	pods, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", workflow.NodeOfKubelet(m)).String(),
	})
	name := "$(kubectl -n kube-system get pods -l k8s-app=kube-proxy -o name)"
	if err == nil || apierrors.IsForbidden(err) {
		for i := range pods.Items {
			if strings.HasPrefix(pods.Items[i].Name, "kube-proxy-") {
				name = "pod/" + pods.Items[i].Name
			}
		}
	}
	return "kubectl -n kube-system delete " + name
}
