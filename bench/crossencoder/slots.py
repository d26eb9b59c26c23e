"""What may stand in a slot of groups.txt. Values of one slot are never the same thing under two names."""

from __future__ import annotations

_LISTS = """
account: Gmail; Facebook; Instagram; LinkedIn; Netflix; Spotify; Discord; Reddit; Dropbox; Steam; TikTok; Pinterest
device: laptop; iPhone; iPad; Kindle; Android phone; Chromebook; smartwatch; MacBook; Windows tablet; Samsung phone
app: Photoshop; Excel; Zoom; Slack; Notion; Firefox; Blender; Evernote; Trello; Skype; Figma; AutoCAD; Minecraft
order: 10482; 10428; 55391; 55931; 7730; 77300; A-1183; A-1138; 90214; 90241; 60017; 61700
country: Japan; Brazil; Kenya; Norway; Mexico; Egypt; Vietnam; Peru; Poland; Greece; Morocco; India; Cuba; Chile; Iceland; Turkey
city: Berlin; Madrid; Rome; Vienna; Oslo; Chicago; Boston; Sydney; Cairo; Lisbon; Dublin; Prague; Toronto; Leeds; Osaka; Milan
day: Monday; Tuesday; Wednesday; Thursday; Friday; Saturday; Sunday
holiday: Christmas Day; Easter Monday; New Year's Eve; Labour Day; Boxing Day; Good Friday
n: 2; 3; 4; 5; 6; 7; 8; 9; 10; 12; 15; 20; 25; 30; 40; 50
big: 80; 120; 150; 200; 240; 300; 350; 450; 500; 750; 900; 1200; 1500; 2000
percent: 5%; 10%; 12%; 15%; 20%; 25%; 30%; 35%; 40%; 50%; 75%
time: 6am; 7am; 8am; 9am; 10am; noon; 1pm; 3pm; 5pm; 6pm; 7pm; 8pm; 7:30; 8:15; half past four
airline: Lufthansa; Ryanair; Delta; KLM; Emirates; Qantas; EasyJet; Iberia
bank: Barclays; HSBC; Santander; Chase; Monzo; ING; Deutsche Bank; Lloyds
currency: euros; dollars; pounds; yen; francs; rupees; pesos; kroner
food: rice; salmon; chicken soup; lasagne; mushrooms; spinach; lentils; pancakes; beef stew; prawns; tofu; pumpkin; potatoes
ingredient: butter; buttermilk; yeast; cornstarch; saffron; soy sauce; basil; vanilla; tahini; lime juice; honey; paprika
illness: the flu; measles; migraine; asthma; anaemia; pneumonia; diabetes; eczema; shingles; malaria; gout; bronchitis
drug: ibuprofen; paracetamol; aspirin; amoxicillin; metformin; cetirizine; omeprazole; sertraline; prednisone; melatonin
pet: cat; dog; rabbit; hamster; parrot; tortoise; guinea pig; goldfish; ferret; canary
race: marathon; half marathon; triathlon; 5k run; cycling tour; cross-country ski race
book: Moby-Dick; Dracula; Emma; Middlemarch; The Hobbit; Frankenstein; War and Peace; Dune; Great Expectations; Walden
event: World Cup; Tour de France; Super Bowl; Eurovision Song Contest; Champions League; Rugby World Cup; Ryder Cup
year: 1966; 1974; 1986; 1998; 2002; 2006; 2010; 2014; 2016; 2018; 2021; 2022
person: Marie Curie; Isaac Newton; Frida Kahlo; Mozart; Ada Lovelace; Napoleon; Cleopatra; Alan Turing; Bach; Charles Darwin
proglang: Python; Java; JavaScript; Rust; Go; Ruby; Kotlin; Swift; PHP; Haskell; Perl; Scala; TypeScript; C
os: Windows; macOS; Ubuntu; Fedora; Debian; Android; FreeBSD; Arch Linux
status: 400; 401; 403; 404; 408; 409; 422; 429; 500; 502; 503; 504
phrase: good morning; thank you; see you soon; where is the station; cheers; I am lost; happy birthday; the bill please
lang: French; Spanish; German; Italian; Japanese; Polish; Turkish; Swedish; Arabic; Dutch; Korean; Greek
contract: passport; driving licence; mortgage; student loan; residence permit; fishing licence; library card; business licence
group: freelancers; pensioners; students; landlords; married couples; farmers; charities; expatriates
income: rent; tips; dividends; gifts; a pension; prize money; interest; side jobs
insurance: car; travel; home; pet; health; liability; bicycle; life
damage: water damage; theft; hail; a broken window; fire; vandalism; a lost phone; a storm
fixture: kitchen sink; toilet; shower; dishwasher; bathtub; washing machine; radiator; gutter; water heater
stain: red wine; coffee; grass; ink; curry; blood; chocolate; lipstick
fabric: cotton; silk; wool; linen; denim; leather; polyester; cashmere
planet: Mars; Venus; Jupiter; the Moon; Saturn; Mercury; Neptune; the Sun
discovery: penicillin; oxygen; radioactivity; gravity; DNA; helium; insulin; electromagnetism; graphene
task: the laundry; the tax forms; a dentist appointment; the school run; the shopping; the report; yoga; the car wash
lamp: kitchen light; bedroom lamp; heating; garden lights; fan; TV; coffee machine; air conditioning
band: Queen; the Beatles; Radiohead; Nirvana; Coldplay; Abba; Metallica; Oasis; U2; Blur
job: nurse; pilot; plumber; teacher; lawyer; data analyst; chef; architect; paramedic; translator; electrician
plant: tulip; rose; tomato; orchid; lily; sunflower; hydrangea; cactus; strawberry; lavender
game: chess; poker; Monopoly; Scrabble; Go; bridge; Catan; checkers; mahjong; Risk
things: meals; extras; services; options; lessons; materials; excursions; features
venue: museum; zoo; gym; club; theatre; swimming pool; stadium; aquarium; gallery; castle
deed: fly a drone; camp in the wild; drive a scooter; hunt; fish; smoke in cars; ride without a helmet; sell home-made food
drink: green tea; coffee; tonic water; hot chocolate; kombucha; orange juice; espresso; oat milk; ginger tea; cola
gadget: vacuum cleaner; toaster; camera; drone; microwave; headset; e-reader; printer; blender; smart TV; router; hair dryer
habit: lie; gossip; bite nails; snore; procrastinate; interrupt others; swear; brag; arrive late; complain
month: January; February; March; April; May; June; July; August; September; October; November; December
"""

SLOTS: dict[str, tuple[str, ...]] = {
    name: tuple(value.strip() for value in values.split(";"))
    for name, _, values in (line.partition(":") for line in _LISTS.strip().splitlines())
}
