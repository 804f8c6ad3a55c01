import { part } from './part.ts'

/** One page: who has it, how it loads, and how to share it. */
export const page = part('page', {
  who: 'Who has this page',
  finding: 'Connecting to the others…',
  unconnected: 'No connection to other people',
  have: { '=1': '1 person has this page', other: '{count} people have this page' },
  haveWho: { '=1': '{who} has this page', other: '{who} have this page' },
  onlyYou: 'Only you have this page',
  onlyYouAll: 'Only you have all of this page',
  nobody: 'Nobody has this page right now',
  nobodyAll: 'Nobody has all of this page right now',
  looking: { '=0': 'Only you are looking at it.', '=1': 'Only you are looking at it.', other: '{count} people are looking at it.' },
  lastAvailable: 'Somebody last had the whole page {ago}.',
  parts: { '=1': '1 person has a part.', other: '{count} people have parts.' },
  partsWith: 'Parts are with {who}.',
  closing: 'When you close this tab, it is gone.',
  stay: 'Keep this tab open until somebody else has it all.',
  whole: { '=1': '{who} has all of it.', other: '{who} have all of it.' },
  wholeWithOurs: '{who} have all of it, including you.',
  people: { '=1': '1 person', other: '{count} people' },
  computers: { '=1': '1 computer', other: '{count} computers' },
  both: '{people} and {computers}',
  from: { '=1': 'from 1 person', other: 'from {count} people' },
  directly: { '=1': 'directly from 1 person', other: 'directly from {count} people' },
  fromWho: 'from {who}',
  andFrom: '{people}, and from {who}',
  partlyDirectly: { other: 'from {count} people, {direct} of them directly' },
  link: 'Link to this page',
  copy: 'Copy link',
  copied: 'Copied',
  alsoAt: 'When this server is gone, this page can be found at {servers}.',
  share: 'Share',
  about: 'Details',
  code: 'QR code',
  codeOf: 'QR code of the link',
  codeTooLong: 'The link is too long for a QR code. Copy it instead.',
  details: 'Connections',
  keep: 'Keep sharing this page',
  keepMeans: 'It stays open in this tab when you go to another page here.',
  hideAddress: 'Hide my address',
  hideAddressMeans:
    'Other viewers do not learn your network address, and pages load more slowly: everything goes through the server, within its quota. ' +
    'Pages that are open already follow when you reload this tab.',
  awake: 'Keep the screen on',
  asleep: 'Your phone stops sharing when its screen goes off or you switch to another app. ' + 'Sharing continues when you come back.',
  hidden: 'The browser stopped this tab in the background. Sharing continues now.',
  stopped: 'The browser stopped this tab in the background. Sharing continues when it is connected again.',
  it: 'the page',
  seeking: 'Looking for people who have {name}…',
  fetching: 'Loading {name}',
  lastLeft: 'The last person who had it has left',
  waitingFor: 'Waiting for somebody who has {name}',
  loading: 'Loading',
  soFar: 'Loaded so far',
  arrived: '{percent} · {size} of {total}',
  arrivedFrom: '{percent} · {size} of {total}, {people}',
  rateLeft: '{speed}, about {time} left',
  arrivedSome: '{size}, {people}',
  last: 'You are the last one. Close this tab and it is gone.',
  largeEnds: 'This page ({size}) is too large for a copy in this browser. Until somebody else has it, a reload of this tab ends it too.',
  reloadEnds: 'This browser has no place for a copy of this page. Until somebody else has it, a reload of this tab ends it too.',
  hadUntil: 'You had {name} in this tab until {ago}',
  hadFiles:
    'Nobody else has it, and this browser has no copy. Add the same files again: a page that is not private gets the same link. It also ' +
    'comes back when somebody who has it opens it.',
  hadText: 'Nobody else has it, and this browser has no copy. Its text is here. A page that is not private gets the same link again.',
  writeAgain: 'Back to the editor',
  promise: 'Keep this tab open: the page appears as soon as somebody who has it opens it again.',
  promiseKept: '{size} has arrived and is kept here. {promise}',
  promiseKeptOf: '{size} of {total} has arrived and is kept here. {promise}',
  waitingHelp: 'The person who sent you the link can do that: ask them to open it.',
  lookAt: 'Look for this page at {server}? That server then learns your network address, and which page you look for.',
  lookThere: 'Look at {server}',
  notify: 'Tell me when it is back',
  notifyOn: 'You will get a notification when it is back, as long as this tab is open.',
  notifyRefused: 'Your browser does not allow notifications here. The title of this tab changes when the page is back.',
  isBack: '{name} is back',
  isBackWhy: 'Somebody has it again. Open the tab to see it.',
  change: 'Copy and change',
  changeMeans: 'A copy opens in the editor and gets a link of its own. This page stays as it is.',
  replaceDraft: 'The copy takes the place of the page that you have begun to write. Continue?',
  private: 'Private: only people with the whole link can read this.',
  keyless: 'This page is private, and this link has no key',
  keylessWhy: 'The whole link has #key= and 43 more characters in it. Ask the person who sent you the link ' + 'for the whole one.',
  closed: 'This page cannot be opened',
  keepUnread: 'You can still keep sharing it, without reading it.',
  key: 'The whole link, or its key',
  open: 'Open it',
  noKey: 'There is no key in this. Paste the whole link.',
  cannot: 'This page cannot be shown',
  noPage: 'This link is not valid. A part of it may be missing: ask the person who sent it for the whole link.',
  denied: 'The operator of this server has blocked this page.',
  pageFull: 'This page is open in as many tabs as the server allows. Try again later.',
  pagesFull: 'As many pages are open as the server allows. Try again later.',
  pagesOfAddressFull: 'Your network address has as many pages open as the server allows. Close one and reload.',
  rejected: 'Others cannot load the page from this tab: {reason}',
  report: 'Report this page',
  own: 'Light a page of your own',
  readers: 'This page is in the browsers of its readers. {own}',
  makeOwn: 'Make your own.',
  dropped: 'Dropped files',
  lightDropped: 'Light {name} as a new page?',
  lightFiles: { '=1': 'Light 1 file as a new page?', other: 'Light {count} files as a new page?' },
  toEditor: 'Open in the editor',
  notNow: 'Not now',
  aPage: 'A page',
  tab: '{name} · Watchfire',
  tabPercent: '{percent} {name} · Watchfire',
  tabUnavailable: 'Unavailable: {name} · Watchfire',
  tabUnseen: { other: '({count}) {name} · Watchfire' },
})

/** The server's reason for rejecting a page, as a sentence. An unknown reason is returned unchanged. */
export function refusalOf(reason: string): string {
  switch (reason) {
    case 'denied':
      return page('denied')
    case 'page full':
      return page('pageFull')
    case 'too many pages':
      return page('pagesFull')
    case 'too many pages of this address':
      return page('pagesOfAddressFull')
    default:
      return reason
  }
}
