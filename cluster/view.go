package cluster

import "github.com/pulsemq/pulsemq/core"

// view is a core.View: the trees of one moment. Trees are persistent, so it
// shares all that did not change with the views before and after it.
type view struct {
	epoch     uint64
	clusterID string
	brokers   []core.Broker
	byName    tree[string, *core.Topic]
	byID      tree[core.TopicID, *core.Topic]
}

// View returns the picture of the current state. It is made once per change, by the
// first call: threads may share a Metadata that does not change once that was made.
func (m *Metadata) View() core.View {
	if m.view == nil {
		v := &view{epoch: m.epoch, clusterID: m.options.ClusterID, byName: m.byName, byID: m.byID}
		for _, n := range m.nodes {
			v.brokers = append(v.brokers, core.Broker{ID: n.ID})
		}
		m.view = v
	}
	return m.view
}

func (v *view) Epoch() uint64          { return v.epoch }
func (v *view) ClusterID() string      { return v.clusterID }
func (v *view) Brokers() []core.Broker { return v.brokers }
func (v *view) Topics() int            { return v.byName.size }

func (v *view) TopicByName(name string) *core.Topic {
	topic, _ := v.byName.get(name)
	return topic
}

func (v *view) TopicByID(id core.TopicID) *core.Topic {
	topic, _ := v.byID.get(id)
	return topic
}

func (v *view) TopicsAfter(name string, each func(*core.Topic) bool) {
	visit := func(_ string, topic *core.Topic) bool { return each(topic) }
	if name == "" { // no topic has the empty name: begin with the first
		v.byName.all(visit)
		return
	}
	v.byName.after(name, visit)
}
