import { fetchLimits } from '@watchfire/pages/limits'
import { render } from 'preact'
import './style/index.css'
import { App, applyTheme, liveSite, refuseStrayDrops } from './app/index.ts'
import { fetchForLimits, isHome, transport } from './early.ts'
import { afterPaint } from './ui/after-paint.ts'
import { followHistory, route } from './ui/location.ts'
import { applyLanguage, loadLanguage } from './messages/index.ts'

applyTheme()
followHistory()
refuseStrayDrops(window)
applyLanguage()

// On the home page the channels load after the first paint; elsewhere the app waits for them.
const inTime = <Loaded,>(load: () => Promise<Loaded>) => (isHome ? afterPaint().then(load) : load())
const channels = inTime(() => import('@watchfire/client/connection')).then(({ connect }) => connect('/socket', { transport }))
const limits = inTime(() => fetchLimits(fetchForLimits))
const site = liveSite(channels, limits)
if (route.peek().kind === 'page') site.prepare()
afterPaint()
  .then(() => import('./app/later.ts'))
  .then(({ beginLater }) => beginLater())
  .catch(() => undefined)

// English is available at once; another language is used when its messages have loaded.
await loadLanguage(navigator.languages).catch(() => undefined)
const place = document.getElementById('app')
if (place !== null) render(<App site={site} />, place)
