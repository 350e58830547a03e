package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/templates"
)

// rehearser is the command's flags.
type rehearser struct {
	observer
	renderer
	binary  string
	env     []string
	args    []string
	log     string
	timeout time.Duration
}

func newRehearse(s phases.Streams) *cobra.Command {
	var r rehearser
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Show what a provider's cloud-controller-manager would do to every Node, and let it write nothing",
		Long: `Runs a provider's own cloud-controller-manager on this machine against a live cluster, through a proxy that lets no write
through, and shows for each Node whether the cloud recognizes it, what would be written to it, and whether it would be
deleted. It takes two runs of the program, of some seconds each; 1,000 Nodes take about a minute and a half.

The program finds an empty HOME and the environment variables that --env names, and no others. It asks its cloud as ever:
give it credentials that can only read, where the cloud has such. "Would be deleted" is what the cloud says now.

Exit status 1 if a Node would be deleted or not be recognized, or if that is not known; 5 if the provider's profile says
that the program does more than a rehearsal can keep it from ("ccmadm provider show" tells).`,
		Example: "  ccmadm rehearse --provider aws --binary ./aws-cloud-controller-manager --cloud-config cloud.conf --credential credentials=./credentials",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), s) },
	}
	r.declareFormats(cmd, "text", "wide", "json")
	flags := cmd.Flags()
	flags.StringVar(&r.settings.Provider, "provider", "", "built-in provider")
	flags.StringVar(&r.settings.Profile, "profile", "", "file with a provider profile of your own")
	flags.StringVar(&r.binary, "binary", "", "the cloud-controller-manager's program")
	flags.StringVar(&r.settings.CloudConfig.File, "cloud-config", "", "the provider's configuration file")
	flags.StringArrayVar(&r.credentials, "credential", nil, "KEY=FILE or KEY=env:NAME, one of the provider's credentials; may be repeated")
	flags.StringVar(&r.settings.ClusterName, "cluster-name", "kubernetes", "name given to the provider")
	flags.StringArrayVar(&r.env, "env", nil, "environment variable of yours that the program gets; may be repeated")
	flags.StringArrayVar(&r.args, "arg", nil, "further argument of the program, --flag=value; may be repeated")
	flags.StringVar(&r.log, "log", "", "file for the program's log")
	flags.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long each of the two runs may take")
	return cmd
}

func (r *rehearser) run(ctx context.Context, s phases.Streams) error {
	if err := r.checkFormat(); err != nil {
		return err
	}
	p, err := r.profile()
	if err != nil {
		return err
	}
	if err := r.allowed(p, s); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ccmadm-credentials-")
	if err != nil {
		return observed(fmt.Errorf("make a directory for credentials: %w", err))
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o, err := r.options(p, s, dir)
	if err != nil {
		return err
	}
	if r.log != "" {
		file, err := os.OpenFile(r.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return usage("open the log: %w", err)
		}
		defer func() { _ = file.Close() }()
		o.Log = file
	}
	report, err := rehearsal.Run(ctx, o)
	var found *finding.Finding
	if errors.As(err, &found) {
		return finding.Errorf("%w", err).WithHint("%s", found.Do)
	}
	if err != nil {
		return observed(err)
	}
	if r.output == "json" {
		err = printLines(s.Out, report.Nodes)
	} else {
		err = report.WriteTable(s.Out, r.output == "wide")
	}
	if err != nil {
		return observed(err)
	}
	return judgeRehearsal(report)
}

// allowed says whether the program can be rehearsed, by its profile and by what was given.
func (r *rehearser) allowed(p *templates.Profile, s phases.Streams) error {
	known := p.CanRehearse()
	switch {
	case known.Verdict == templates.RehearsalRefused || !p.Has(templates.Nodes) || p.OwnFlags:
		why := known.Why
		if known.Verdict != templates.RehearsalRefused {
			why = "it has not upstream's controllers of Nodes"
		}
		return finding.Refusedf("rehearse provider %s: %s", p.Name, why)
	case r.binary == "":
		return usage("--binary is missing: the program of provider %s, out of its image", p.Name)
	case known.Verdict == templates.RehearsalUnknown:
		fmt.Fprintf(s.Err, "ccmadm: warning: whether provider %s does more than upstream's controllers is not known: %s\n", p.Name, known.Why)
	}
	if err := rehearsal.CheckArgs(r.args); err != nil {
		return usage("read --arg: %w", err)
	}
	return nil
}

// options fills the profile with what was given. Files of credentials are written into dir, and go with it.
func (r *rehearser) options(p *templates.Profile, s phases.Streams, dir string) (rehearsal.Options, error) {
	o := rehearsal.Options{Lifecycle: p.Has(templates.Lifecycle), MayRead: p.RBAC, Timeout: r.timeout}
	o.Progress = func(text string) { fmt.Fprintln(s.Err, text) }
	var err error
	if o.Program, err = filepath.Abs(r.binary); err != nil {
		return o, usage("read --binary: %w", err)
	}
	if o.Cluster, err = r.config(s); err != nil {
		return o, err
	}
	if r.settings.Credentials, err = parseCredentials(r.credentials); err != nil {
		return o, err
	}
	files, err := phases.ReadFiles(&r.settings, p, s.Env)
	if err != nil {
		return o, err
	}
	if err := p.CheckConfig(files, r.settings.CloudConfig.File); err != nil {
		return o, usage("%w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return o, observed(fmt.Errorf("write %s: %w", name, err))
		}
	}
	local := strings.NewReplacer(templates.ConfigDir, dir, templates.Kubeconfig, rehearsal.KubeconfigPlace)
	if o.Args, err = r.arguments(p, slices.Sorted(maps.Keys(files)), local); err != nil {
		return o, usage("%w", err)
	}
	o.Env, err = r.environment(p, files, local, s.Env)
	return o, err
}

// arguments are the profile's, and the user's. What a pod finds in its own places is in ours.
func (r *rehearser) arguments(p *templates.Profile, files []string, local *strings.Replacer) ([]string, error) {
	v := templates.Values{
		Mode: templates.StaticPod, Version: version, ClusterName: r.settings.ClusterName, Files: files, NodeLifecycle: true,
	}
	own, err := p.ExpandArgs(v)
	if err != nil {
		return nil, err
	}
	args := []string{"--cloud-provider=" + p.CloudProviderName(), "--cluster-name=" + v.ClusterName}
	if config := v.ConfigPath(p); config != "" {
		args = append(args, "--cloud-config="+config)
	}
	if args, err = templates.MergeArgs(args, own); err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = local.Replace(args[i])
	}
	for _, name := range p.UserArgs {
		if !slices.ContainsFunc(r.args, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) {
			return nil, fmt.Errorf("provider %s needs --arg %s=VALUE", p.Name, name)
		}
	}
	return templates.MergeArgs(args, r.args)
}

// environment is the profile's, with credentials in place of their keys, and what --env names.
func (r *rehearser) environment(
	p *templates.Profile, files map[string][]byte, local *strings.Replacer, lookup func(string) string,
) ([]string, error) {
	v := templates.Values{Mode: templates.StaticPod, ClusterName: r.settings.ClusterName, Files: slices.Sorted(maps.Keys(files))}
	list, err := p.ExpandEnv(p.Container, v, "")
	if err != nil {
		return nil, usage("%w", err)
	}
	var env []string
	for _, e := range list {
		switch {
		case e.ValueFrom == nil:
			env = append(env, e.Name+"="+local.Replace(e.Value))
		case e.ValueFrom.SecretKeyRef != nil:
			env = append(env, e.Name+"="+strings.TrimSpace(string(files[e.ValueFrom.SecretKeyRef.Key])))
		}
	}
	for _, name := range r.env {
		value := lookup(name)
		if value == "" {
			return nil, usage("read --env: variable %s is empty or not set", name)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// judgeRehearsal is the exit status.
func judgeRehearsal(report *rehearsal.Report) error {
	failing := report.Failing()
	if len(failing) == 0 {
		return nil
	}
	var names []string
	for _, v := range failing {
		if v.Outcome == rehearsal.WouldBeDeleted {
			names = append(names, v.Node)
		}
	}
	if len(names) > 0 {
		return finding.Errorf("rehearse: would be deleted: %s", strings.Join(names, ", "))
	}
	return &finding.Error{Code: finding.ExitError, Err: errors.New("rehearse: " + report.Summary())}
}
