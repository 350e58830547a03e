package main

import (
	"fmt"
	"os"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases"
)

func newConfig(s phases.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print, validate or migrate a CloudConfiguration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigPrint(s), newConfigValidate(s), newConfigMigrate(s))
	return cmd
}

func newConfigPrint(s phases.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration with every default filled in",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			config := &v1alpha1.CloudConfiguration{}
			if path != "" {
				var err error
				if config, err = readConfig(path); err != nil {
					return err
				}
			}
			return printConfig(s, config)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "file to start from (default: nothing set)")
	return cmd
}

func newConfigValidate(s phases.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a file that has a CloudConfiguration document, alone or among kubeadm's",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := readConfig(path); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.Out, "%s: ok\n", path)
			return err
		},
	}
	requireConfig(cmd, &path)
	return cmd
}

func newConfigMigrate(s phases.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Print the CloudConfiguration in the newest version, " + v1alpha1.APIVersion,
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := readConfig(path)
			if err != nil {
				return err
			}
			return printConfig(s, config)
		},
	}
	requireConfig(cmd, &path)
	return cmd
}

func requireConfig(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "file to read")
	_ = cmd.MarkFlagRequired("config") // fails only for a flag that was not declared
}

func printConfig(s phases.Streams, config *v1alpha1.CloudConfiguration) error {
	config.Default()
	data, err := config.Encode()
	if err != nil {
		return err
	}
	_, err = s.Out.Write(data)
	return err
}

func readConfig(path string) (*v1alpha1.CloudConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("read configuration: %w", err)
	}
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	doc, line, ok := file.TakeCloudConfiguration()
	if !ok {
		return nil, usage("read %s: it has no document of kind %s", path, v1alpha1.ConfigKind)
	}
	return v1alpha1.DecodeCloudConfiguration(path, line, doc, phases.KnownProvider)
}

func usage(format string, args ...any) error {
	return &finding.Error{Code: finding.ExitUsage, Err: fmt.Errorf(format, args...)}
}
