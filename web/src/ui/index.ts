export { App } from './App.tsx'
export { liveSite } from './live.ts'
export { followHistory } from './location.ts'
export { wearTheme } from './theme.ts'
