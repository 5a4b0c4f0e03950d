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
}

// Commands lists every command that this package speaks, in the order of their numbers.
func Commands() []CommandInfo {
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
