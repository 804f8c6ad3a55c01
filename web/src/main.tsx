import { render } from 'preact'
import { fetchLimits } from './limits/index.ts'
import './style/index.css'
import { App, followHistory, liveSite, wearTheme } from './ui/index.ts'

// The channels come beside the first paint, not before it.
const channels = import('./channel/index.ts').then(({ connect }) => connect('/socket'))
const site = liveSite(channels, fetchLimits(fetch))

wearTheme()
followHistory()
const place = document.getElementById('app')
if (place !== null) render(<App site={site} />, place)
