// Package mail is what travels in the rings between reactors and shards:
// decoded requests one way, answers the other way, letters between shards.
// netio and shard both import it and nothing of each other.
//
// Memory: a batch on its way in lies in a slab of the reactor's sub-arena for
// that shard; the shard releases the slab, which carries it home. Batches on
// their way out are slices of slabs that the shard keeps alive until the reactor
// has handed them to the socket and sent the Parcel back with RequestReturn.
package mail
