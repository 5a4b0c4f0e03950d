package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/core"
)

// topicSettingsHelp lists the settings of a topic for a command's help. A broker
// of another version may have others; topic describe shows those that it has.
func topicSettingsHelp() string {
	var b strings.Builder
	b.WriteString("Settings, each with what is allowed:\n")
	for _, key := range core.TopicKeys() {
		b.WriteString("  " + key.Name + "  (" + key.Allowed() + ")\n")
		for _, line := range wrapped(strings.ReplaceAll(key.Doc, "`", ""), settingsHelpWidth) {
			b.WriteString("      " + line + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const settingsHelpWidth = 80

// wrapped breaks text at spaces into lines of at most width bytes.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// completeSetting completes KEY= of --config.
func completeSetting(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return settingKeys("="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSettingKey completes KEY of --unset.
func completeSettingKey(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return settingKeys(""), cobra.ShellCompDirectiveNoFileComp
}

func settingKeys(suffix string) []string {
	var keys []string
	for _, key := range core.TopicKeys() {
		keys = append(keys, key.Name+suffix)
	}
	return keys
}
