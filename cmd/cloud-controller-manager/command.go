package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider"
)

// newCommand declares upstream's flags under upstream's names, except those of
// webhooks and of leader migration, which have nothing to act on.
func newCommand(version string) (*cobra.Command, error) {
	cmd := &cobra.Command{
		Use:     "cloud-controller-manager",
		Version: version,
		Args:    cobra.NoArgs,
		Long: `Upstream's cloud controllers with the ` + provider.Name + ` provider: sets provider ID, addresses, zone and region of
every Node that a kubelet registers with --cloud-provider=external, and removes the uninitialized taint.`,
	}
	o, err := newOptions()
	if err != nil {
		return nil, err
	}
	logOptions, approves := logs.NewOptions(), &approval{}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := logsapi.ValidateAndApply(logOptions, utilfeature.DefaultFeatureGate); err != nil {
			return err
		}
		klog.InfoS("Starting "+cmd.Name(), "version", version)
		return run(cmd.Context(), o, approves)
	}

	sections := o.Flags(controllers(), app.ControllersDisabledByDefault.List(), names.CCMControllerAliases(), nil, nil)
	global := sections.FlagSet("global")
	logsapi.AddFlags(logOptions, global)
	approves.declare(sections.FlagSet("serving certificates"))
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	global.Bool("version", false, "print the version and exit")
	for _, section := range sections.FlagSets {
		cmd.Flags().AddFlagSet(section)
	}
	if err := setDefaults(cmd.Flags()); err != nil {
		return nil, err
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
	cmd.AddCommand(newApprover(version))
	return cmd, nil
}

// newOptions returns upstream's options without what has nothing to act on: no
// webhooks are built in, and kube-controller-manager, from which leaders would
// migrate, runs no cloud controllers since 1.31.
func newOptions() (*options.CloudControllerManagerOptions, error) {
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Webhook, o.WebhookServing = nil, nil
	o.Generic.LeaderMigration = nil
	return o, nil
}

// setDefaults changes upstream's defaults; the command line still wins. It works
// on flags, since upstream sets some defaults only when it declares the flag.
func setDefaults(flags *pflag.FlagSet) error {
	for name, value := range map[string]string{
		"cloud-provider": provider.Name,
		// Without routes in the provider this is a warning at every start, and
		// with them it needs --cluster-cidr, or the process ends.
		"configure-cloud-routes": "false",

		// Upstream's one worker at 20 requests a second initializes 6.7 Nodes/s,
		// each taking three requests: 5,000 Nodes would need 12 minutes. Here as
		// many requests as there are workers are under way at most, and the API
		// server's priority and fairness says which of them wait: no limit but that.
		"concurrent-node-syncs": "32",
		"kube-api-qps":          "-1",

		// Looking up client CAs in the cluster needs an API server and one more
		// permission before the first byte is served. Tokens work without it,
		// and --client-ca-file can take its place.
		"authentication-skip-lookup":             "true",
		"authentication-tolerate-lookup-failure": "true",
	} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
		flag := flags.Lookup(name)
		flag.DefValue, flag.Changed = value, false
	}
	return nil
}

// controllers lists upstream's four by name.
func controllers() []string {
	return app.ControllerNames(app.DefaultInitFuncConstructors)
}
