import { fetchLimits } from '@watchfire/pages/limits'
import { render } from 'preact'
import './style/index.css'
import { App, applyTheme, liveSite, refuseStrayDrops } from './app/index.ts'
import { earlySocket } from './app/early-socket.ts'
import { afterPaint } from './ui/after-paint.ts'
import { followHistory, route } from './ui/location.ts'
import { applyLanguage, loadLanguage } from './messages/index.ts'

applyTheme()
followHistory()
refuseStrayDrops(window)
applyLanguage()

// On the home page the channels load after the first paint; elsewhere the app waits for them, and the socket opens while they load.
const isFrontDoor = route.peek().kind === 'home'
const transport = isFrontDoor ? WebSocket : earlySocket(`${location.origin.replace('http', 'ws')}/socket/websocket?vsn=2.0.0`)
const channels = (isFrontDoor ? afterPaint() : Promise.resolve())
  .then(() => import('@watchfire/client/connection'))
  .then(({ connect }) => connect('/socket', { transport }))
const limits = (isFrontDoor ? afterPaint() : Promise.resolve()).then(() => fetchLimits(fetch))
const site = liveSite(channels, limits)
if (route.peek().kind === 'page') site.prepare()
afterPaint()
  .then(() => import('./app/steady-presses.ts'))
  .then(({ keepPressesSteady }) => keepPressesSteady(window))
  .catch(() => undefined)

// English is available at once; another language is used when its messages have loaded.
await loadLanguage(navigator.languages).catch(() => undefined)
const place = document.getElementById('app')
if (place !== null) render(<App site={site} />, place)

// A closed tab cannot remove its blocks from disk, so the next tab does that when it is idle.
setTimeout(() => {
  try {
    if (localStorage.getItem('watchfire:disk') !== null) void import('@watchfire/pages/disk').then(({ sweep }) => sweep())
  } catch {
    // A browser without storage has nothing to remove.
  }
  import('./app/share-target.ts').then(
    ({ registerShareTarget }) => registerShareTarget(),
    () => undefined,
  )
}, 3000)
