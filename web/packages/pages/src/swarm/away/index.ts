export { SeveralServers } from './several-servers.ts'
