package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/docs/schema"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newConfig(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print, validate or migrate a CloudConfiguration; print schemas for editors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigPrint(s), newConfigValidate(s), newConfigMigrate(s), newConfigSchema(s))
	return cmd
}

func newConfigPrint(s workflow.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "print",
		Short:   "Print every setting with its value or default",
		Long:    `Prints every setting. ccmadm detects empty settings when it runs; ` + "`ccmadm config schema`" + ` describes how.`,
		Example: "  ccmadm config print > cloud.yaml\n  ccmadm config print --config cloud.yaml",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config := &config.CloudConfiguration{}
			if path != "" {
				var err error
				if config, err = readConfig(path); err != nil {
					return err
				}
			}
			config.Default()
			data, err := config.EncodeAll()
			if err != nil {
				return err
			}
			_, err = s.Out.Write(data)
			return err
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "file to start from (default: nothing set)")
	return cmd
}

func newConfigSchema(s workflow.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON schema of a kind of document, for an editor",
		Long: `Prints the JSON schema of one of the kinds ` + strings.Join(schema.Kinds(), ", ") + ` (default: the first).
An editor that has the YAML language server completes and checks a file that begins with

    # yaml-language-server: $schema=cloudconfiguration.json`,
		Example:   "  ccmadm config schema > cloudconfiguration.json",
		ValidArgs: schema.Kinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return finding.Usagef("%s: want one kind, got %d", cmd.CommandPath(), len(args))
			}
			text, err := schema.Of(append(args, config.ConfigKind)[0])
			if err != nil {
				return finding.Usagef("%s: %w", cmd.CommandPath(), err)
			}
			_, err = s.Out.Write(text)
			return err
		},
	}
}

func newConfigValidate(s workflow.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a file of ccmadm init: a CloudConfiguration, kubeadm's documents, or both",
		Long: `Checks the CloudConfiguration, and in kubeadm's documents the names of kinds and fields. "kubeadm config validate"
checks the values there.`,
		Example: "  ccmadm config validate --config kubeadm.yaml",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return finding.Usagef("read configuration: %w", err)
			}
			told, err := validate(path, data)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%s: %s\n", path, told)
			return err
		},
	}
	requireConfig(cmd, &path)
	return cmd
}

// validate checks a file of `ccmadm init`, and returns what to say of one without a fault. A file of kubeadm alone has none:
// init takes the defaults.
func validate(path string, data []byte) (string, error) {
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return "", &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	doc, line, ok := file.TakeCloudConfiguration()
	if !ok {
		if len(bytes.TrimSpace(data)) == 0 {
			return "", noConfig(path)
		}
		return "ok; without a CloudConfiguration, `ccmadm init` uses provider onprem and the defaults", namesRead(path, data)
	}
	config, err := config.DecodeCloudConfiguration(path, line, doc, settings.KnownProvider)
	if err != nil {
		return "", err
	}
	if err := namesRead(path, data); err != nil {
		return "", err
	}
	return "ok", settings.CheckConfiguration(config)
}

// namesRead refuses kinds and fields beside the CloudConfiguration that nobody reads.
func namesRead(path string, data []byte) error {
	var errs []error
	for _, f := range kubeadm.LintNames(path, data) {
		errs = append(errs, fmt.Errorf("read %s %s:%d: %s", f.Object, f.File, f.Line, f.Message))
	}
	if len(errs) == 0 {
		return nil
	}
	return &finding.Error{Code: finding.ExitUsage, Err: errors.Join(errs...)}
}

func newConfigMigrate(s workflow.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Print the CloudConfiguration in the newest version, " + v1alpha1.APIVersion,
		Example: "  ccmadm config migrate --config cloud.yaml > migrated.yaml",
		Args:    usage.NoArgs,
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

func printConfig(s workflow.Streams, config *config.CloudConfiguration) error {
	config.Default()
	data, err := config.Encode()
	if err != nil {
		return err
	}
	_, err = s.Out.Write(data)
	return err
}

func readConfig(path string) (*config.CloudConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, finding.Usagef("read configuration: %w", err)
	}
	return decodeConfig(path, data)
}

func decodeConfig(path string, data []byte) (*config.CloudConfiguration, error) {
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	doc, line, ok := file.TakeCloudConfiguration()
	if !ok {
		return nil, noConfig(path)
	}
	return config.DecodeCloudConfiguration(path, line, doc, settings.KnownProvider)
}

func noConfig(path string) error {
	return finding.Usagef("read %s: it has no document of kind %s", path, config.ConfigKind).
		WithHint("`ccmadm config print` prints one with every default, to add to the file")
}
