// One Socket.IO server without an adapter.

import { startServer } from './socket.io-server.mjs'

startServer('new_msg')
