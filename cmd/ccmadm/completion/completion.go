// Package completion is what a shell offers after TAB beyond names of commands and flags: values of flags, and names of what is
// in the cluster or in a kubeconfig.
//
// Start at [Register], for values that are known without a cluster, and at [Nodes] and its like for those that are not.
//
// Reads: the flags typed so far, kubeconfigs, and objects of the cluster. Writes: nothing.
// Running it twice: asks again; nothing is cached.
// It will not: make the user wait for more than [Patience], or print an error into the line that is being typed. A cluster that
// cannot be asked offers nothing.
package completion

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/templates"
)

// Patience is how long a person waits for a completion.
const Patience = 2 * time.Second

// Register completes values that depend on neither cluster nor machine, by the names of flags: in all commands they mean the
// same.
func Register(root *cobra.Command) {
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if values := valuesOf(f); values != nil {
			// It fails for a flag that has a completion: phases share the flags of their command.
			_ = root.RegisterFlagCompletionFunc(f.Name, values)
		}
	})
	for _, c := range root.Commands() {
		Register(c)
	}
}

func valuesOf(f *pflag.Flag) cobra.CompletionFunc {
	switch f.Name {
	case "provider":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) { // every start of ccmadm comes here
			return append(providers(), cobra.CompletionWithDesc(config.ProviderAuto, "ask this machine")), cobra.ShellCompDirectiveNoFileComp
		}
	case "mode":
		return fixed(named(f.Usage, config.ModeAuto, config.ModeStaticPod, config.ModeDaemonSet, config.ModeDeployment, config.ModeManual)...)
	case "via":
		return fixed(named(f.Usage, fleet.ViaHand, fleet.ViaPods, fleet.ViaSSH)...)
	case "for":
		return fixed(nodes.StateNames()...)
	case "skip":
		return List(Nodes(ControlPlane))
	case "node":
		return Nodes(ControlPlane)
	case "config", "profile", "filename", "inventory":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		}
	}
	return nil
}

// named are the values that the flag's own help names: not every command has all.
func named[T ~string](usage string, all ...T) []string {
	var list []string
	for _, value := range all {
		if strings.Contains(usage, string(value)) {
			list = append(list, string(value))
		}
	}
	return list
}

func providers() []cobra.Completion {
	var list []cobra.Completion
	for _, name := range templates.Names() {
		title := ""
		if p, err := templates.Load(name); err == nil {
			title = p.Title
		}
		list = append(list, cobra.CompletionWithDesc(name, title))
	}
	return list
}

// Providers completes an argument that is a provider or a file.
func Providers(_ *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 || strings.ContainsAny(typed, "/.") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return providers(), cobra.ShellCompDirectiveDefault
}

func fixed(values ...cobra.Completion) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// Contexts completes names from a kubeconfig.
func Contexts(load func() (api.Config, error)) cobra.CompletionFunc {
	return fromFile(load, func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) })
}

// Clusters completes names from a kubeconfig.
func Clusters(load func() (api.Config, error)) cobra.CompletionFunc {
	return fromFile(load, func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) })
}

// Users completes names from a kubeconfig.
func Users(load func() (api.Config, error)) cobra.CompletionFunc {
	return fromFile(load, func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) })
}

func fromFile(load func() (api.Config, error), names func(*api.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(&c), cobra.ShellCompDirectiveNoFileComp
	}
}

// Connect finds the cluster that the command line names so far.
type Connect func() (*rest.Config, error)

// ControlPlane is the cluster of this control plane, for commands that know no other.
func ControlPlane() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", machine.AdminConf)
}

// Nodes completes names of Nodes.
func Nodes(connect Connect) cobra.CompletionFunc {
	return fromCluster(connect, func(ctx context.Context, client kubernetes.Interface) ([]cobra.Completion, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []cobra.Completion
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names, nil
	})
}

// Services completes NAMESPACE/NAME of a Service of type LoadBalancer.
func Services(connect Connect) cobra.CompletionFunc { return most(1, balanced(connect)) }

// Pair completes NAMESPACE/NAME of two Services of type LoadBalancer.
func Pair(connect Connect) cobra.CompletionFunc { return most(2, balanced(connect)) }

func balanced(connect Connect) cobra.CompletionFunc {
	return fromCluster(connect, func(ctx context.Context, client kubernetes.Interface) ([]cobra.Completion, error) {
		list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []cobra.Completion
		for _, s := range list.Items {
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				names = append(names, s.Namespace+"/"+s.Name)
			}
		}
		return names, nil
	})
}

// Pools completes names of AddressPools.
func Pools(connect Connect) cobra.CompletionFunc {
	return fromCluster(connect, func(ctx context.Context, client kubernetes.Interface) ([]cobra.Completion, error) {
		// One request: a client of this kind would first ask which kinds there are.
		pools := "/apis/" + v1alpha1.APIVersion + "/addresspools"
		data, err := client.CoreV1().RESTClient().Get().AbsPath(pools).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		var list v1alpha1.AddressPoolList
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, err
		}
		var names []cobra.Completion
		for _, p := range list.Items {
			names = append(names, cobra.CompletionWithDesc(p.Name, strings.Join(p.Spec.Ranges, ",")))
		}
		return names, nil
	})
}

// Runs completes numbers of the journal's runs.
func Runs(connect Connect) cobra.CompletionFunc {
	return most(1, fromCluster(connect, func(ctx context.Context, client kubernetes.Interface) ([]cobra.Completion, error) {
		runs, err := journal.Read(ctx, client)
		if err != nil {
			return nil, err
		}
		var numbers []cobra.Completion
		for _, r := range slices.Backward(runs) { // the newest is the one that is meant most often
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(r.ID), r.Command))
		}
		return numbers, nil
	}))
}

// most completes so many arguments.
func most(count int, complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) >= count {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, given, typed)
	}
}

// List completes the last of several values with commas between them.
func List(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		given := strings.Split(before, ",")
		found, directive := complete(cmd, given, typed[len(before):])
		found = slices.DeleteFunc(found, func(c cobra.Completion) bool {
			name, _, _ := strings.Cut(c, "\t")
			return slices.Contains(given, name)
		})
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// fromCluster asks within Patience. The question is left behind where even looking for the cluster takes longer, as a program
// that a kubeconfig names for credentials may.
func fromCluster(
	connect Connect, ask func(context.Context, kubernetes.Interface) ([]cobra.Completion, error),
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), Patience)
		defer cancel()
		answer := make(chan []cobra.Completion, 1)
		go func() {
			found, err := answerOf(ctx, connect, ask)
			if err != nil {
				found = nil
			}
			answer <- found
		}()
		var found []cobra.Completion
		select {
		case <-ctx.Done():
		case found = <-answer:
		}
		found = slices.DeleteFunc(found, func(c cobra.Completion) bool {
			name, _, _ := strings.Cut(c, "\t")
			return slices.Contains(given, name)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func answerOf(
	ctx context.Context, connect Connect, ask func(context.Context, kubernetes.Interface) ([]cobra.Completion, error),
) ([]cobra.Completion, error) {
	c, err := connect()
	if err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.Timeout = Patience
	c.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return ask(ctx, client)
}
