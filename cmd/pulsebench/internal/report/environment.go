package report

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Environment is where a run took place.
type Environment struct {
	Time       time.Time `json:"time"` // when it began
	CPUModel   string    `json:"cpu_model"`
	Cores      int       `json:"cores"`
	Memory     uint64    `json:"memory_bytes"`
	OS         string    `json:"os"`
	Arch       string    `json:"arch"`
	Kernel     string    `json:"kernel"`
	FileSystem string    `json:"file_system"` // of the broker's data folder; empty when it is not known
	DataFolder string    `json:"data_folder,omitempty"`
	Go         string    `json:"go_version"`
	Version    string    `json:"pulsebench_version"`
	Broker     Broker    `json:"broker"`
	Command    string    `json:"command"` // repeats the run
}

// Public is the environment as a page may show it that others read: without what names this machine, its folders and
// its addresses. command stands for the arguments, which name them too.
func (e Environment) Public(command string) Environment {
	e.FileSystem, _, _ = strings.Cut(e.FileSystem, " on ")
	e.Kernel, _, _ = strings.Cut(e.Kernel, "-") // behind it somebody's own name for a build
	e.DataFolder, e.Command = "", command
	e.Broker.Addresses, e.Broker.ClusterID = "", ""
	settings := make(map[string]string)
	for key, value := range e.Broker.Settings {
		if key != "storage.data-dir" && !strings.HasSuffix(key, "host") && !strings.HasSuffix(key, "port") {
			settings[key] = value
		}
	}
	e.Broker.Settings = settings
	return e
}

// Broker is what the broker says of itself.
type Broker struct {
	Addresses      string            `json:"addresses"`
	Version        string            `json:"version"`
	NodeID         uint32            `json:"node_id"`
	ClusterID      string            `json:"cluster_id"`
	BatchBytesMax  uint32            `json:"batch_bytes_max"`
	WindowBytes    uint64            `json:"window_bytes"`
	WindowRequests uint32            `json:"window_requests"`
	TopicConfig    map[string]string `json:"topic_config"`               // every setting in force
	TopicConfigSet []string          `json:"topic_config_set,omitempty"` // the settings that are the topic's own
	Settings       map[string]string `json:"settings,omitempty"`         // the broker's own, by key, where its metrics port is known
}

// NewEnvironment looks at this machine. dataFolder is the broker's, when it is on this machine; else it is empty.
func NewEnvironment(version, dataFolder string) Environment {
	return Environment{
		Time:       time.Now().UTC().Truncate(time.Second),
		CPUModel:   cpuModel(),
		Cores:      runtime.NumCPU(),
		Memory:     memoryBytes(),
		OS:         runtime.GOOS,
		Arch:       runtime.GOARCH,
		Kernel:     kernel(),
		FileSystem: fileSystem(dataFolder),
		DataFolder: dataFolder,
		Go:         runtime.Version(),
		Version:    version,
		Command:    CommandLine(os.Args),
	}
}

// NewBroker takes what HELLO and DESCRIBE_TOPIC said.
func NewBroker(addresses string, hello *proto.HelloResponse, configs []proto.TopicConfigEntry) Broker {
	b := Broker{
		Addresses: addresses, Version: hello.BrokerVersion, NodeID: hello.NodeID, ClusterID: hello.ClusterID,
		BatchBytesMax: hello.Limits.BatchBytesMax, WindowBytes: hello.WindowBytes, WindowRequests: hello.WindowRequests,
		TopicConfig: make(map[string]string),
	}
	for i := range configs {
		b.TopicConfig[configs[i].Key] = configs[i].Value
		if configs[i].Source == proto.ConfigSourceTopic {
			b.TopicConfigSet = append(b.TopicConfigSet, configs[i].Key+"="+configs[i].Value)
		}
	}
	return b
}

// CommandLine quotes arguments so that a shell takes them for the same.
func CommandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%", r)
		}) {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
