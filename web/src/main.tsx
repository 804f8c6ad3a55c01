import { fetchLimits } from './limits/index.ts'
import { render } from 'preact'
import './style/index.css'
import { App, afterPaint, followHistory, liveSite, route, wearTheme } from './ui/index.ts'
import { markLanguage, speakOneOf } from './words/index.ts'

wearTheme()
followHistory()
markLanguage()

// At the front door the channels come after the first paint; elsewhere it waits for what they bring.
const isFrontDoor = route.peek().kind === 'home'
const channels = (isFrontDoor ? afterPaint() : Promise.resolve())
  .then(() => import('./channel/index.ts'))
  .then(({ connect }) => connect('/socket'))
const limits = (isFrontDoor ? afterPaint() : Promise.resolve()).then(() => fetchLimits(fetch))
const site = liveSite(channels, limits)

// English is spoken at once, and any other language when its words are here.
await speakOneOf(navigator.languages).catch(() => undefined)
const place = document.getElementById('app')
if (place !== null) render(<App site={site} />, place)

// Tabs that have ended cannot remove what they had on disk; whoever comes next does, when there is nothing better to do.
setTimeout(() => {
  try {
    if (localStorage.getItem('watchfire:disk') !== null) void import('./storage/browser.ts').then(({ sweep }) => sweep())
  } catch {
    // A browser that lets us store nothing has nothing of ours.
  }
}, 3000)
