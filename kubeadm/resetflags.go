package kubeadm

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// ResetFlags are the arguments of `kubeadm reset`, with what they mean to ccmadm, too.
type ResetFlags struct {
	// DryRun holds with --dry-run, and with a ResetConfiguration that says so.
	DryRun bool
	// Force is --force.
	Force bool
	// IgnorePreflightErrors is the flag's list.
	IgnorePreflightErrors []string
	// Rest are the other flags, as --flag=value.
	Rest []string
}

// ReadResetFlags reads arguments that stood behind --, and the file of a --config. It refuses flags that it does not know, words
// and --help: kubeadm could end well and leave the machine in its cluster, and what comes next would take it apart.
func ReadResetFlags(args []string) (*ResetFlags, error) {
	var r ResetFlags
	flags := pflag.NewFlagSet("kubeadm reset", pflag.ContinueOnError)
	flags.SortFlags, flags.Usage = false, func() {}
	flags.BoolVar(&r.DryRun, "dry-run", false, "")
	flags.BoolVarP(&r.Force, "force", "f", false, "")
	flags.StringSliceVar(&r.IgnorePreflightErrors, "ignore-preflight-errors", nil, "")
	config := flags.String("config", "", "")
	flags.Bool("cleanup-tmp-dir", false, "")
	skip := flags.StringSlice("skip-phases", nil, "")
	for _, name := range []string{"cert-dir", "cri-socket", "kubeconfig", "vmodule"} {
		flags.String(name, "", "")
	}
	flags.StringP("v", "v", "", "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return nil, errors.New("read the flags of kubeadm reset: --help is `kubeadm reset --help`")
	case err != nil:
		return nil, fmt.Errorf("read the flags of kubeadm reset: %w", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("read the flags of kubeadm reset: unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "dry-run", "force", "ignore-preflight-errors": // ccmadm gives them to kubeadm itself
		case "skip-phases":
			r.Rest = append(r.Rest, "--skip-phases="+strings.Join(*skip, ","))
		default:
			r.Rest = append(r.Rest, "--"+f.Name+"="+f.Value.String())
		}
	})
	if *config != "" {
		dry, err := resetIsDry(*config)
		if err != nil {
			return nil, err
		}
		r.DryRun = r.DryRun || dry
	}
	return &r, nil
}

// resetIsDry reads dryRun of a ResetConfiguration, as kubeadm does.
func resetIsDry(path string) (bool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read configuration: %w", err)
	}
	f, err := Parse(path, data)
	if err != nil {
		return false, err
	}
	d := f.document("ResetConfiguration")
	if d == nil {
		return false, nil // kubeadm refuses the file
	}
	var said struct{ DryRun bool }
	if err := yaml.Unmarshal([]byte(d.Text), &said); err != nil {
		return false, d.Errorf(d.Root, "%w", err)
	}
	return said.DryRun, nil
}
