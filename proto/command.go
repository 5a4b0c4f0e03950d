package proto

import "strconv"

// Command is the number of a command, without the answer bit.
type Command uint8

// CommandInfo describes a command that this package speaks.
type CommandInfo struct {
	Command    Command
	Name       string
	VersionMin uint8
	VersionMax uint8
	Request    bool // clients send it
	Answered   bool // a request has an answer when it succeeds
	Served     bool // brokers of this release serve it
}

// Commands lists every command that is served, in the order of their numbers.
func Commands() []CommandInfo {
	var served []CommandInfo
	for _, info := range commandInfos {
		if info.Served {
			served = append(served, info)
		}
	}
	return served
}

// Layouts lists every command that has a layout, also those that are not served yet.
func Layouts() []CommandInfo {
	return append([]CommandInfo(nil), commandInfos[:]...)
}

// String is the command's name, or its number when it has none.
func (c Command) String() string {
	if name := commandName(c); name != "" {
		return name
	}
	return "COMMAND_" + strconv.Itoa(int(c))
}

// Info finds the command's description; false when this package does not speak it.
func (c Command) Info() (CommandInfo, bool) {
	for i := range commandInfos {
		if commandInfos[i].Command == c {
			return commandInfos[i], true
		}
	}
	return CommandInfo{}, false
}

// Version is the version that this package writes; 0 when it does not speak the command.
func (c Command) Version() uint8 {
	info, _ := c.Info()
	return info.VersionMax
}
