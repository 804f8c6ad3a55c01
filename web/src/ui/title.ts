import { percentText } from '../words/index.ts'
import { page } from '../words/page.ts'
import type { Fire } from './tab.ts'

/** What the tab says of itself in a row of tabs. */
export interface TabFace {
  fire: Fire
  name: string | null
  /** Percent that has come, while it comes. */
  percent: number | null
  watching: number | null
}

/** The title of the tab: first what changes, because tabs are narrow. */
export function tabTitle({ fire, name, percent, watching }: TabFace): string {
  const named = name ?? page('aPage')
  switch (fire) {
    case 'kindling':
      return percent === null ? page('tab', { name: named }) : page('tabPercent', { percent: percentText(percent), name: named })
    case 'dark':
      return page('tabDark', { name: named })
    case 'lit':
      return watching === null ? page('tab', { name: named }) : page('tabWatching', { count: watching, name: named })
  }
}
