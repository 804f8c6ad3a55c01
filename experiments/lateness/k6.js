// Each iteration is a user: it sends 30 messages, one a second. The experiment gives the number of users and the URL.

import { clearInterval, setInterval } from 'k6/timers'
import { WebSocket } from 'k6/websockets'

const USERS = Number(__ENV.LAB_USERS)
const MESSAGES = 30

export const options = {
  scenarios: {
    senders: {
      executor: 'constant-arrival-rate',
      rate: 250,
      timeUnit: '1s',
      duration: `${USERS / 250}s`,
      preAllocatedVUs: USERS,
      gracefulStop: '60s',
    },
  },
}

export default function () {
  const socket = new WebSocket(__ENV.LAB_TARGET)
  let sent = 0
  socket.onopen = () => {
    const send = () => {
      socket.send('sixteen bytes..!')
      sent += 1
    }
    send()
    const timer = setInterval(() => {
      if (sent < MESSAGES) return send()
      clearInterval(timer)
      socket.close()
    }, 1000)
  }
}
