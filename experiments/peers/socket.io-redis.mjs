// One machine of a Socket.IO cluster, with the sharded Redis adapter.
//
//   node socket.io-redis.mjs <url of Redis>

import { createShardedAdapter } from '@socket.io/redis-adapter'
import { createClient } from 'redis'
import { startServer } from './socket.io-server.mjs'

const [url] = process.argv.slice(2)
if (url === undefined) throw new Error('cannot start without Redis: the argument is its URL, such as redis://127.0.0.1:6379')

const publisher = createClient({ url })
const subscriber = publisher.duplicate()
await Promise.all([publisher.connect(), subscriber.connect()])

// With a channel for each room, a machine receives only messages of rooms with members on it.
startServer('note', { adapter: createShardedAdapter(publisher, subscriber, { subscriptionMode: 'dynamic' }) })
