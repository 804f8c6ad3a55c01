export { App } from './App.tsx'
export { liveSite } from './live-site.ts'
export { refuseStrayDrops } from './stray-drops.ts'
export { applyTheme } from './theme.ts'
