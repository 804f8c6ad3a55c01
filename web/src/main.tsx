import { render } from 'preact'
import { connect } from './channel/index.ts'
import { fetchLimits } from './limits/index.ts'
import './style/index.css'
import { App, followHistory, liveSite, wearTheme } from './ui/index.ts'

wearTheme()
followHistory()
const site = liveSite(connect('/socket'), fetchLimits(fetch))
const place = document.getElementById('app')
if (place !== null) render(<App site={site} />, place)
