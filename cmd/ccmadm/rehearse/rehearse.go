// Package rehearse is `ccmadm rehearse`: its flags, and the hidden commands that run in its pod.
//
// Start at [NewCommand]. Package doctor/rehearsal rehearses, its package inpod on a control plane; program.go says how the program is
// called.
//
// Reads and writes: what these packages do; on this machine the credentials of a program of --binary, as long as it runs.
// Running it twice: rehearses again.
// It will not: rehearse a program that by its profile has effects which cannot be prevented.
package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// rehearser is the command's flags.
type rehearser struct {
	observer.Cluster
	settings    config.CloudConfiguration
	credentials []string
	mirror      string
	binary      string
	program     string
	ownImage    string
	env         []string
	args        []string
	log         string
	timeout     time.Duration
	// release is that of ccmadm, for profiles that name it.
	release string
}

// NewCommand returns the command of a release of ccmadm. The image is that of ccmadm, for the pod.
func NewCommand(s workflow.Streams, release, image string) *cobra.Command {
	r := rehearser{release: release}
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Preview what a provider's cloud-controller-manager would do to every Node, without writing",
		Long: `Runs a provider's own cloud-controller-manager against an existing cluster, through a proxy that forwards no writes. For
each Node it shows whether the cloud recognizes it, what would be written to it, and whether it would be deleted. It runs the
program twice, for some seconds each; 1,000 Nodes take about a minute and a half.

It runs in a pod on a control plane, in the provider's image, with that machine's network and cloud identity, in a namespace
that is removed afterwards. The pod may read what the program reads; an admission policy denies all of its writes, and ccmadm
checks that the policy is in force first. With --binary it runs on this machine, and nothing is created in the cluster.

The program gets an empty HOME and only the environment variables that --env names. Its requests to the cloud are not
intercepted: use read-only credentials if the cloud has them. "Would be deleted" reflects what the cloud returns now.` +
			usage.ExitStatuses(usage.Endings{
				finding.ExitFound:   "a Node would be deleted, would not be recognized, or could not be checked",
				finding.ExitRefused: "by its profile the program has effects that a rehearsal cannot prevent\n  (`ccmadm provider show`), or the pod cannot be created",
			}),
		Example: `  ccmadm rehearse --provider aws --cloud-config cloud.conf
  ccmadm rehearse --provider aws --binary ./aws-cloud-controller-manager --cloud-config cloud.conf --credential credentials=./credentials`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), s) },
	}
	r.DeclareFormats(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	flags := cmd.Flags()
	flags.StringVar(&r.settings.Provider, "provider", "", "built-in provider")
	flags.StringVar(&r.settings.Profile, "profile", "", "file with a provider profile of your own")
	flags.StringVar(&r.binary, "binary", "",
		"the cloud-controller-manager's program, to be run on this machine and not in a pod")
	flags.StringVar(&r.settings.ControllerManager.Image, "image", "",
		"cloud-controller-manager image of the pod instead of the profile's")
	flags.StringVar(&r.settings.ControllerManager.Version, "image-tag", "", "tag instead of the profile's")
	flags.StringVar(&r.mirror, "image-repository", "", "mirror that has the images, as kubeadm's --image-repository")
	flags.StringVar(&r.program, "program", "", "path of the program in the image, if the profile does not have it")
	flags.StringVar(&r.ownImage, "node-image", image, "image whose entrypoint is ccmadm, for the same pod")
	flags.StringVar(&r.settings.CloudConfig.File, "cloud-config", "", "the provider's configuration file")
	flags.StringArrayVar(&r.credentials, "credential", nil,
		"KEY=FILE or KEY=env:NAME, one of the provider's credentials; may be repeated")
	flags.StringVar(&r.settings.ClusterName, "cluster-name", "kubernetes", "name given to the provider")
	flags.StringArrayVar(&r.env, "env", nil, "environment variable of yours that the program gets; may be repeated")
	flags.StringArrayVar(&r.args, "arg", nil, "further argument of the program, --flag=value; may be repeated")
	flags.StringVar(&r.log, "log", "", "file for the program's log")
	flags.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long each of the two runs may take")
	cmd.AddCommand(newCopyItself(), newRunTask(s, release))
	return cmd
}

func (r *rehearser) run(ctx context.Context, s workflow.Streams) error {
	if err := r.Output.Check(); err != nil {
		return err
	}
	p, err := providers.Profile(&r.settings)
	if err != nil {
		return err
	}
	if err := r.allowed(p, s); err != nil {
		return err
	}
	var log io.Writer
	if r.log != "" {
		file, err := os.OpenFile(r.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return finding.Usagef("open the log: %w", err)
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	rehearse := r.inPod
	if r.binary != "" {
		rehearse = r.here
	}
	report, err := rehearse(ctx, p, log, s)
	if report == nil {
		return failedRehearsal(err)
	}
	if shown := r.show(report, s); shown != nil {
		return usage.Observed(shown)
	}
	if err != nil { // something was left behind
		return usage.Observed(err)
	}
	return judgeRehearsal(report)
}

// failedRehearsal is the error of a rehearsal without a report.
func failedRehearsal(err error) error {
	var found *finding.Finding
	if errors.As(err, &found) {
		return finding.Errorf("%w", err).WithHint("%s", found.Do)
	}
	return observer.Asked(err)
}

func (r *rehearser) show(report *rehearsal.Report, s workflow.Streams) error {
	return r.Output.Write(s.Out, output.Lines(report.Nodes), func() error {
		return report.WriteTable(s.Out, r.Output.Is(output.Wide))
	})
}

// allowed reports whether the program can be rehearsed, by its profile and by what was given.
func (r *rehearser) allowed(p *templates.Profile, s workflow.Streams) error {
	known := p.CanRehearse()
	switch {
	case known.Verdict == templates.RehearsalRefused || !p.Has(templates.Nodes) || p.OwnFlags:
		why := known.Why
		if known.Verdict != templates.RehearsalRefused {
			why = "it does not run upstream's node controllers"
		}
		return finding.Refusedf("rehearse provider %s: %s", p.Name, why)
	case r.binary != "" && (r.program != "" || r.settings.ControllerManager.Image != ""):
		return finding.Usagef("--binary rehearses on this machine: --image and --program are of a pod")
	case r.binary == "" && cmp.Or(r.program, p.ProgramInImage()) == "":
		return finding.Usagef("--program is missing: the file of provider %s that its image starts; or --binary, for this machine",
			p.Name)
	case known.Verdict == templates.RehearsalUnknown:
		fmt.Fprintf(s.Err, "ccmadm: warning: it is unknown whether provider %s does more than upstream's controllers: %s\n", p.Name, known.Why)
	}
	if err := rehearsal.CheckArgs(r.args); err != nil {
		return finding.Usagef("read --arg: %w", err)
	}
	return nil
}

// here rehearses on this machine. Files of credentials are there as long as the rehearsal.
func (r *rehearser) here(
	ctx context.Context, p *templates.Profile, log io.Writer, s workflow.Streams,
) (*rehearsal.Report, error) {
	dir, err := os.MkdirTemp("", "ccmadm-credentials-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for credentials: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o, files, err := r.options(p, s, dir)
	if err != nil {
		return nil, err
	}
	if o.Program, err = filepath.Abs(r.binary); err != nil {
		return nil, finding.Usagef("read --binary: %w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	o.Log = log
	return rehearsal.Run(ctx, o)
}

// options fills the profile with what was given. The provider's files are those of dir.
func (r *rehearser) options(
	p *templates.Profile, s workflow.Streams, dir string,
) (rehearsal.Options, map[string][]byte, error) {
	o := rehearsal.Options{Lifecycle: p.Has(templates.Lifecycle), MayRead: p.RBAC, Timeout: r.timeout}
	o.Progress = func(text string) { fmt.Fprintln(s.Err, text) }
	var err error
	if o.Cluster, err = r.Config(s); err != nil {
		return o, nil, err
	}
	if r.settings.Credentials, err = providers.Credentials(r.credentials); err != nil {
		return o, nil, err
	}
	files, err := manager.ReadFiles(&r.settings, p, s.Getenv)
	if err != nil {
		return o, nil, err
	}
	wrong := p.CheckConfig(files, r.settings.CloudConfig.File)
	if dir == templates.ConfigDir { // else the configuration names files of this machine
		wrong = errors.Join(wrong, p.CheckNamed(files))
	}
	if wrong != nil {
		return o, nil, finding.Usagef("%w", wrong)
	}
	local := strings.NewReplacer(templates.ConfigDir, dir, templates.Kubeconfig, rehearsal.KubeconfigPlace)
	if o.Args, err = r.arguments(p, slices.Sorted(maps.Keys(files)), local); err != nil {
		return o, nil, finding.Usagef("%w", err)
	}
	o.Env, err = r.environment(p, files, local, s.Getenv)
	return o, files, err
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
		return &finding.Error{Code: finding.ExitFound, Err: errors.New("rehearse: would be deleted: " + strings.Join(names, ", "))}
	}
	return &finding.Error{Code: finding.ExitFound, Err: errors.New("rehearse: " + report.Summary())}
}
